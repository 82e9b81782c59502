"""The nouns of the embedded grammar, by what they name: English, Italian, Italian gender."""

from attnlab.grammar.lexicon import (
    ANIMAL,
    CLOTHES,
    CONTAINER,
    DRINK,
    FOOD,
    OBJECT,
    OPENABLE,
    PERSON,
    PLACE,
    SURFACE,
    TEXT,
    VEHICLE,
    Noun,
    entries,
    gender_of,
)


def _nouns(kind: frozenset[str], table: str) -> list[Noun]:
    (name,) = kind
    return [
        Noun(
            english,
            italian,
            gender_of(gender),
            name,
            english_plural=options.get("plural"),
            italian_plural=options.get("plurale"),
            mass="mass" in marks,
            kinship="kin" in marks,
        )
        for (english, italian, gender, *marks), options in entries(table)
    ]


NOUNS: list[Noun] = [
    *_nouns(
        PERSON,
        """
        man uomo m plural=men plurale=uomini
        boy ragazzo m
        child bambino m plural=children
        brother fratello m kin
        father padre m kin
        son figlio m kin
        uncle zio m kin plurale=zii
        grandfather nonno m kin
        husband marito m kin
        doctor medico m plurale=medici
        teacher maestro m
        student studente m
        friend amico m plurale=amici
        king re m
        painter pittore m
        farmer contadino m
        lawyer avvocato m
        soldier soldato m
        waiter cameriere m
        gardener giardiniere m
        thief ladro m plural=thieves
        baker panettiere m
        psychologist psicologo m plurale=psicologi
        gnome gnomo m
        writer scrittore m
        actor attore m
        engineer ingegnere m
        woman donna f plural=women
        girl ragazza f
        mother madre f kin
        sister sorella f kin
        daughter figlia f kin
        aunt zia f kin
        grandmother nonna f kin
        wife moglie f kin plural=wives plurale=mogli
        queen regina f
        actress attrice f
        nurse infermiera f
        waitress cameriera f
        witch strega f
        princess principessa f
        lady signora f
        ballerina ballerina f
        """,
    ),
    *_nouns(
        ANIMAL,
        """
        dog cane m
        cat gatto m
        horse cavallo m
        bird uccello m
        wolf lupo m plural=wolves
        lion leone m
        rabbit coniglio m
        mouse topo m plural=mice
        squirrel scoiattolo m
        elephant elefante m
        bear orso m
        cow mucca f
        hen gallina f
        bee ape f
        eagle aquila f
        goat capra f
        frog rana f
        turtle tartaruga f
        monkey scimmia f
        zebra zebra f
        """,
    ),
    *_nouns(
        FOOD,
        """
        apple mela f
        pear pera f
        cake torta f
        sandwich panino m
        potato patata f
        tomato pomodoro m
        soup zuppa f
        cookie biscotto m
        lemon limone m
        orange arancia f
        cherry ciliegia f plurale=ciliegie
        strawberry fragola f
        salad insalata f
        bread pane m mass
        cheese formaggio m mass
        rice riso m mass
        meat carne f mass
        honey miele m mass
        """,
    ),
    *_nouns(
        DRINK,
        """
        milk latte m mass
        water acqua f mass
        wine vino m mass
        coffee caffè m mass
        tea tè m mass
        beer birra f mass
        """,
    ),
    *_nouns(
        TEXT,
        """
        book libro m
        letter lettera f
        story storia f
        poem poesia f
        postcard cartolina f
        article articolo m
        message messaggio m
        novel romanzo m
        """,
    ),
    *_nouns(
        OBJECT,
        """
        chair sedia f
        lamp lampada f
        plate piatto m
        knife coltello m plural=knives
        spoon cucchiaio m
        key chiave f
        mirror specchio m
        ball palla f
        umbrella ombrello m
        clock orologio m
        guitar chitarra f
        backpack zaino m
        toy giocattolo m
        candle candela f
        sword spada f
        instrument strumento m
        computer computer m
        ring anello m
        bicycle bicicletta f
        painting quadro m
        """,
    ),
    *_nouns(
        SURFACE,
        """
        table tavolo m
        bed letto m
        bench panchina f
        carpet tappeto m
        sofa divano m
        """,
    ),
    *_nouns(
        OPENABLE,
        """
        door porta f
        window finestra f
        drawer cassetto m
        gate cancello m
        """,
    ),
    *_nouns(
        CONTAINER,
        """
        box scatola f
        bottle bottiglia f
        bag borsa f
        envelope busta f
        """,
    ),
    *_nouns(
        CLOTHES,
        """
        hat cappello m
        coat cappotto m
        shirt camicia f plurale=camicie
        shoe scarpa f
        dress vestito m
        boot stivale m
        scarf sciarpa f plural=scarves
        skirt gonna f
        glove guanto m
        """,
    ),
    *_nouns(
        PLACE,
        """
        house casa f
        garden giardino m
        kitchen cucina f
        school scuola f
        city città f
        market mercato m
        church chiesa f
        park parco m
        station stazione f
        hospital ospedale m
        square piazza f
        forest bosco m
        castle castello m
        restaurant ristorante m
        library biblioteca f
        museum museo m
        village villaggio m
        stadium stadio m
        office ufficio m
        hotel albergo m
        shop negozio m
        zoo zoo m
        theater teatro m
        room stanza f
        university università f
        """,
    ),
    *_nouns(
        VEHICLE,
        """
        car macchina f
        train treno m
        boat barca f
        bus autobus m
        ship nave f
        truck camion m
        """,
    ),
]
