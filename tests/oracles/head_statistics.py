"""Statistics of one head written as loops over single weights; imports nothing of attnlab."""

import math


def statistics(sentences):
    """Means over sentences of one head.

    `sentences` is a list of (matrix, query kinds, key kinds, causal); a kind is a set of the words
    special, opening, closing, punctuation. Matrices hold no padding.
    """
    entropy, share, peak = [], [], []
    mass, offset_mass, distance_mass = 0.0, 0.0, 0.0
    at = {d: [0.0, 0] for d in range(-5, 6)}
    on = {name: [0.0, 0] for name in ("special", "punctuation", "opening", "closing")}
    for matrix, query_kinds, key_kinds, causal in sentences:
        for i, row in enumerate(matrix):
            if "special" in query_kinds[i]:
                continue
            seen = [j for j in range(len(row)) if not causal or j <= i]
            entropy.append(-sum(row[j] * math.log(row[j]) for j in seen if row[j] > 0))
            if len(seen) > 1:
                share.append(entropy[-1] / math.log(len(seen)))
            content = [j for j in seen if "special" not in key_kinds[j]]
            peak.append(max((row[j] for j in content), default=0.0))
            for j in content:
                mass += row[j]
                offset_mass += row[j] * (j - i)
                distance_mass += row[j] * abs(j - i)
                if j - i in at:
                    at[j - i][0] += row[j]
                    at[j - i][1] += 1
            for name, sums in on.items():
                there = [j for j in seen if name in key_kinds[j]]
                if there:
                    sums[0] += sum(row[j] for j in there)
                    sums[1] += 1
    return {
        "rows": len(entropy),
        "entropy_nats": _mean(entropy),
        "normalised_entropy": _mean(share),
        "confidence": _mean(peak),
        "mean_offset": offset_mass / mass if mass else math.nan,
        "mean_absolute_offset": distance_mass / mass if mass else math.nan,
        **{f"mass_at_offset_{d}": _quotient(*sums) for d, sums in at.items()},
        **{f"mass_on_{name}": _quotient(*sums) for name, sums in on.items()},
        **{f"rows_seeing_{name}": sums[1] for name, sums in on.items()},
    }


def content_statistics(sentences):
    """The same with special tokens left out as keys, each row divided by its weight on the others."""
    entropy, share, peak = [], [], []
    at = {d: [0.0, 0] for d in range(-5, 6)}
    marks = [0.0, 0]
    without = 0
    for matrix, query_kinds, key_kinds, causal in sentences:
        for i, row in enumerate(matrix):
            if "special" in query_kinds[i]:
                continue
            content = [
                j
                for j in range(len(row))
                if "special" not in key_kinds[j] and (not causal or j <= i)
            ]
            total = sum(row[j] for j in content)
            if total == 0:
                without += 1
                continue
            part = {j: row[j] / total for j in content}
            entropy.append(-sum(p * math.log(p) for p in part.values() if p > 0))
            if len(content) > 1:
                share.append(entropy[-1] / math.log(len(content)))
            peak.append(max(part.values()))
            for j, p in part.items():
                if j - i in at:
                    at[j - i][0] += p
                    at[j - i][1] += 1
            there = [j for j in content if "punctuation" in key_kinds[j]]
            if there:
                marks[0] += sum(part[j] for j in there)
                marks[1] += 1
    return {
        "rows_without_content_mass": without,
        "content_entropy_nats": _mean(entropy),
        "content_normalised_entropy": _mean(share),
        "content_confidence": _mean(peak),
        "content_mass_on_punctuation": _quotient(*marks),
        **{f"content_mass_at_offset_{d}": _quotient(*sums) for d, sums in at.items()},
    }


def jensen_shannon_distance(one, other, query_kinds):
    """sqrt of the mean over content rows of the divergence in bits."""
    divergences = []
    for p, q, kinds in zip(one, other, query_kinds, strict=True):
        if "special" in kinds:
            continue
        total = 0.0
        for a, b in zip(p, q, strict=True):
            middle = (a + b) / 2
            total += a * math.log2(a / middle) / 2 if a > 0 else 0.0
            total += b * math.log2(b / middle) / 2 if b > 0 else 0.0
        divergences.append(total)
    return math.sqrt(_mean(divergences))


def _mean(values):
    return sum(values) / len(values) if values else math.nan


def _quotient(total, count):
    return total / count if count else math.nan
