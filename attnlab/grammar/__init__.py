"""The embedded corpus: sentence pairs with gold trees and word alignments."""
