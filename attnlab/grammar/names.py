"""Proper names of people and towns, in the order of their frequency in the embedded grammar.

A name is drawn with probability proportional to 1 / rank, so that nearly every sentence holds a
name and most names are rare.
"""

from itertools import accumulate, chain, zip_longest

from attnlab.grammar.concepts import Name

_WOMEN = """
Anna Maria Lucia Elena Giulia Sara Laura Chiara Francesca Paola Marta Silvia Valentina Martina Elisa
Alice Emma Sofia Giorgia Federica Claudia Roberta Daniela Monica Cristina Barbara Simona Sabrina
Patrizia Angela Teresa Rosa Giovanna Caterina Lucrezia Beatrice Irene Ilaria Serena Veronica Alessia
Michela Arianna Camilla Ludovica Greta Noemi Gaia Aurora Ginevra Vittoria Bianca Carlotta Matilde
Viola Nicole Rebecca Rachele Miriam Debora Ester Diana Flavia Fabiola Fiorella Gabriella Graziella
Ivana Letizia Liliana Loredana Luisa Manuela Marcella Margherita Mariella Marina Marisa Mirella Nadia
Nicoletta Norma Olga Ornella Pamela Raffaella Renata Rita Rosanna Rossella Samanta Sandra Stefania
Susanna Tamara Tatiana Tiziana Vanessa Viviana Wanda Zoe Agnese Agata Adele Adriana Alba Alberta
Alda Amalia Amelia Anastasia Antonella Antonietta Assunta Benedetta Bruna Carla Carmela Carolina
Cecilia Celeste Cinzia Clara Clarissa Clelia Clementina Concetta Cornelia Corinna Cosima Costanza
Delia Desideria Dina Domenica Donatella Dora Doriana Edda Edvige Elda Eleonora Elettra Eliana Elvira
Emanuela Emilia Enrica Erica Ersilia Eugenia Eva Evelina Fausta Fedora Felicia Filomena Flaminia
Flora Fosca Gemma Genoveffa Germana Giacinta Gianna Gilda Gina Giordana Giuditta Giuliana Giuseppina
Gloria Grazia Guenda Ida Ilda Imelda Ines Iolanda Iris Isabella Isotta Italia Ivonne Katia Lara Lavinia
Lea Leda Lidia Lina Linda Livia Lorena Lorenza Luana Luciana Ludmilla Maddalena Mafalda Mara Marzia
Melania Melissa Milena Milva Mina Minerva Mirta Moira Morgana Natalia Nives Noemia Nora Nunzia
Oriana Orsola Ottavia Palmira Penelope Perla Piera Pierina Priscilla Ramona Regina Romana Romilda
Rosalba Rosalia Rosaria Rosetta Sabina Selene Selvaggia Serafina Sibilla Sofonisba Sonia Stella
Tania Tecla Tosca Tullia Ulrica Urania Valeria Vera Verdiana Virginia Zaira Zelinda Zenobia Zita
"""

_MEN = """
Marco Luca Paolo Giovanni Andrea Matteo Francesco Alessandro Davide Stefano Roberto Antonio Giuseppe
Lorenzo Simone Pietro Carlo Tommaso Riccardo Filippo Daniele Fabio Massimo Giorgio Enrico Alberto
Claudio Michele Nicola Leonardo Gabriele Federico Edoardo Jacopo Emanuele Diego Samuele Giacomo
Vincenzo Salvatore Sergio Mario Luigi Bruno Franco Maurizio Vittorio Aldo Dario Cesare Ugo Guido
Alessio Mattia Mirko Manuel Ivan Igor Ettore Dante Adriano Agostino Albano Alceste Alcide Aldino
Alfonso Alfredo Alvaro Amadeo Ambrogio Amedeo Amerigo Amilcare Anacleto Angelo Aniello Anselmo
Arcangelo Aristide Armando Arnaldo Arturo Attilio Augusto Aurelio Baldassarre Bartolomeo Basilio
Battista Benedetto Beniamino Bernardo Biagio Bonifacio Brando Calogero Camillo Carmelo
Carmine Casimiro Celestino Cirillo Ciro Clemente Corrado Cosimo Costantino Cristiano Cristoforo
Damiano Demetrio Desiderio Dino Dionigi Domenico Donato Duccio Efisio Egidio Egisto Elia Eligio Elio
Emiliano Emilio Ennio Enzo Eraldo Ercole Ermanno Ermes Ernesto Erminio Eugenio Eusebio Evaristo Ezio
Fabrizio Fausto Fedele Felice Ferdinando Fermo Fernando Ferruccio Flaminio Flavio Fortunato Fosco
Fulvio Furio Gaetano Galileo Gaspare Gastone Gennaro Gerardo Germano Gherardo Giancarlo Gianfranco
Gianluca Gianni Gilberto Gino Gioacchino Giordano Girolamo Giuliano Giulio Glauco Goffredo Graziano
Gregorio Gualtiero Guglielmo Ignazio Ilario Innocenzo Ippolito Isacco Isidoro Italo Ivano Lamberto
Lando Lanfranco Lapo Lazzaro Leandro Leone Leopoldo Libero Liborio Livio Lodovico Loris Luciano Lucio
Ludovico Manfredi Manlio Marcello Mariano Marino Martino Marzio Massimiliano Maurilio Mauro Melchiorre
Michelangelo Milo Modesto Moreno Napoleone Narciso Nazario Nello Nereo Nestore Niccolò Nino Norberto
Nunzio Olindo Olivo Omar Omero Onofrio Orazio Oreste Orfeo Orlando Orso Oscar Osvaldo Ottavio Ottone
Ovidio Pancrazio Pantaleo Pasquale Patrizio Pellegrino Pierluigi Piero Pio Placido Pompeo Primo
Procopio Prospero Quintino Quirino Raffaele Raimondo Raniero Raul Remigio Remo Renato Renzo Rinaldo
Rocco Rodolfo Rodrigo Rolando Romano Romeo Romolo Rosario Ruben Ruggero Sabino Sandro Santo Saverio
Savino Sebastiano Secondo Settimio Severino Silvano Silvestro Silvio Siro Socrate Spartaco Sulpicio
Tancredi Teodoro Terenzio Tiberio Timoteo Tito Tiziano Tobia Tullio Ubaldo Ulderico Ulisse Umberto
Urbano Valentino Valerio Vasco Venanzio Vinicio Virgilio Vitale Vito Vittore Vladimiro Walter Zaccaria
Zeno
"""

_TOWNS = """
Rome Paris London Milan Florence Venice Naples Berlin Madrid Turin Barcelona Vienna Athens Bologna
Genoa Lisbon Moscow Palermo Prague Dublin Brussels Verona Pisa Siena Munich Hamburg Stockholm
Copenhagen Oslo Helsinki Geneva Zurich Marseille Lyon Seville Valencia Catania Bari Padua Mantua
Trieste Perugia Lucca Parma Modena Ravenna Bergamo Brescia Cagliari Istanbul Tokyo Beijing Boston
Chicago Toronto Havana Cairo Jerusalem Budapest Warsaw Krakow Edinburgh Salzburg Bruges Antwerp Nice
Cologne Dresden Leipzig Frankfurt Ancona Aosta Arezzo Asti Avellino Benevento Bolzano Brindisi Caserta
Como Cosenza Cremona Cuneo Empoli Enna Faenza Ferrara Foggia Gorizia Imola Ivrea Lecce Lecco Livorno
Lodi Matera Messina Monza Novara Nuoro Oristano Orvieto Otranto Pavia Pesaro Pescara Pistoia Potenza
Prato Rieti Rimini Salerno Sassari Savona Sondrio Spoleto Syracuse Taranto Teramo Terni Trapani Trento
Treviso Udine Urbino Varese Vercelli Viareggio Vicenza Viterbo Volterra
"""


def _people() -> list[Name]:
    women = [Name(name, "f") for name in _WOMEN.split()]
    men = [Name(name, "m") for name in _MEN.split()]
    turns = chain.from_iterable(zip_longest(women, men))
    return [name for name in turns if name is not None]


def zipf_weights(count: int) -> list[float]:
    """Sums of the harmonic weights 1/1 + ... + 1/rank for every rank up to `count`."""
    return list(accumulate(1 / rank for rank in range(1, count + 1)))


PEOPLE: list[Name] = _people()
TOWNS: list[Name] = [Name(name, "f", town=True) for name in _TOWNS.split()]
