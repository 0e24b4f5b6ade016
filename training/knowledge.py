"""The closed world: every fact, with the ways to ask for it.

`facts()` lists `Fact(task, answer, questions)`. Words that the word tasks play with are here too.
"""

from dataclasses import dataclass

from stories import article, capitalised


@dataclass(frozen=True)
class Fact:
    task: str
    answer: str
    questions: tuple[str, ...]


def table(text: str) -> dict[str, str]:
    """`key: value` entries, separated by semicolons or line ends."""
    entries = [entry.split(":") for entry in text.replace("\n", ";").split(";") if entry.strip()]
    return {key.strip(): value.strip() for key, value in entries}


CAPITALS = table("""France: Paris; Spain: Madrid; Italy: Rome; Germany: Berlin; Portugal: Lisbon; Greece: Athens
England: London; Ireland: Dublin; Norway: Oslo; Sweden: Stockholm; Finland: Helsinki; Denmark: Copenhagen
Poland: Warsaw; Austria: Vienna; Hungary: Budapest; Russia: Moscow; Belgium: Brussels; Turkey: Ankara
Switzerland: Bern; Romania: Bucharest; Ukraine: Kyiv; Iceland: Reykjavik; the Netherlands: Amsterdam
Japan: Tokyo; China: Beijing; India: New Delhi; Egypt: Cairo; Kenya: Nairobi; Nigeria: Abuja; Morocco: Rabat
Canada: Ottawa; Mexico: Mexico City; Brazil: Brasilia; Argentina: Buenos Aires; Chile: Santiago; Peru: Lima
Cuba: Havana; Australia: Canberra; New Zealand: Wellington; Thailand: Bangkok; South Korea: Seoul
Vietnam: Hanoi; Indonesia: Jakarta; Iran: Tehran; Iraq: Baghdad; the United States: Washington, D.C.""")

CONTINENTS = table("""France: Europe; Spain: Europe; Italy: Europe; Germany: Europe; Greece: Europe; Poland: Europe
Norway: Europe; Sweden: Europe; Japan: Asia; China: Asia; India: Asia; Thailand: Asia; Vietnam: Asia; Egypt: Africa
Kenya: Africa; Nigeria: Africa; Morocco: Africa; Canada: North America; Mexico: North America; Brazil: South America
Argentina: South America; Chile: South America; Peru: South America; the United States: North America""")

LANGUAGES = table("""France: French; Spain: Spanish; Italy: Italian; Germany: German; Portugal: Portuguese
Greece: Greek; England: English; Norway: Norwegian; Sweden: Swedish; Finland: Finnish; Denmark: Danish; Poland: Polish
Hungary: Hungarian; Russia: Russian; Turkey: Turkish; Japan: Japanese; China: Chinese; Egypt: Arabic; Mexico: Spanish
Brazil: Portuguese; Argentina: Spanish; Australia: English""")

SOUNDS = table("""cow: moos; dog: barks; cat: meows; duck: quacks; sheep: baas; pig: oinks; horse: neighs; lion: roars
owl: hoots; frog: croaks; snake: hisses; bee: buzzes; wolf: howls; mouse: squeaks; hen: clucks; rooster: crows
donkey: brays; crow: caws; bird: chirps; elephant: trumpets; turkey: gobbles; monkey: chatters""")

YOUNG = table("""dog: puppy; cat: kitten; cow: calf; horse: foal; sheep: lamb; pig: piglet; duck: duckling; goat: kid
hen: chick; bear: cub; lion: cub; deer: fawn; kangaroo: joey; frog: tadpole; swan: cygnet; goose: gosling; owl: owlet
fox: kit; elephant: calf; whale: calf; butterfly: caterpillar; rabbit: kit""")

HOMES = table("""bird: nest; bee: hive; fox: den; bear: cave; spider: web; rabbit: burrow; horse: stable; dog: kennel
lion: den; beaver: lodge; ant: anthill; pig: sty; hen: coop; mole: tunnel; fish: water; squirrel: tree; mouse: hole""")

FOOD = table("""cow: grass; panda: bamboo; rabbit: carrots and grass; squirrel: nuts; koala: leaves; cat: fish and mice
bear: honey, berries and fish; mouse: cheese and seeds; monkey: bananas; horse: hay and grass; frog: flies; bee: nectar
lion: meat; giraffe: leaves; penguin: fish; hen: grain; spider: flies; owl: mice; elephant: grass and leaves""")

CLASSES = table("""dog: mammal; cat: mammal; whale: mammal; bat: mammal; dolphin: mammal; elephant: mammal; horse: mammal
eagle: bird; penguin: bird; owl: bird; duck: bird; parrot: bird; snake: reptile; turtle: reptile; crocodile: reptile
lizard: reptile; frog: amphibian; shark: fish; salmon: fish; bee: insect; ant: insect; butterfly: insect""")

LEGS = table("""dog: 4; cat: 4; cow: 4; horse: 4; spider: 8; ant: 6; bee: 6; bird: 2; duck: 2; snake: 0; crab: 10
butterfly: 6; elephant: 4; fish: 0; human: 2; octopus: 0; hen: 2; mouse: 4""")

COLOURS = table("""banana: yellow; lemon: yellow; grass: green; snow: white; coal: black; carrot: orange; tomato: red
strawberry: red; cucumber: green; milk: white; chocolate: brown; sky: blue; sun: yellow; cherry: red; frog: green
polar bear: white; blueberry: blue; pumpkin: orange; flamingo: pink; broccoli: green; night: black; elephant: grey
panda: black and white; zebra: black and white; sunflower: yellow; raven: black; corn: yellow; plum: purple""")
NO_ARTICLE = {"grass", "snow", "coal", "milk", "chocolate", "broccoli", "corn"}
DEFINITE = {"sky", "sun", "night"}

MIXES = {("red", "blue"): "purple", ("blue", "yellow"): "green", ("red", "yellow"): "orange",
         ("red", "white"): "pink", ("black", "white"): "grey"}

KINDS = table("""carrot: vegetable; apple: fruit; banana: fruit; potato: vegetable; cherry: fruit; onion: vegetable
pear: fruit; cabbage: vegetable; grape: fruit; lemon: fruit; broccoli: vegetable; mango: fruit; spinach: vegetable
rose: flower; tulip: flower; daisy: flower; oak: tree; pine: tree; birch: tree; piano: musical instrument
violin: musical instrument; drum: musical instrument; guitar: musical instrument; hammer: tool; saw: tool
car: vehicle; bus: vehicle; bicycle: vehicle; boat: vehicle; chair: piece of furniture; table: piece of furniture
gold: metal; iron: metal; silver: metal; chess: game; football: sport; tennis: sport""")
KINDS_NO_ARTICLE = {"broccoli", "spinach", "gold", "iron", "silver", "chess", "football", "tennis"}

JOBS = table("""baker: bakes bread; doctor: helps sick people; teacher: teaches children; farmer: grows food
pilot: flies planes; cook: makes meals; painter: paints pictures; sailor: sails ships; singer: sings songs
dentist: looks after teeth; writer: writes books; firefighter: puts out fires; tailor: makes clothes
gardener: looks after gardens; plumber: repairs water pipes; astronaut: travels to space; judge: decides in court
vet: helps sick animals; postman: brings letters; miner: digs in the ground; carpenter: makes things from wood""")

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = dict(zip(MONTHS, "31 28 31 30 31 30 31 31 30 31 30 31".split()))
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
SIDES = table("triangle: 3; square: 4; rectangle: 4; pentagon: 5; hexagon: 6; octagon: 8; circle: 0")
COUNTS = table("""days in a week: 7; months in a year: 12; hours in a day: 24; minutes in an hour: 60
seconds in a minute: 60; letters in the alphabet: 26; planets in the solar system: 8; continents on Earth: 7
days in a year: 365; seasons in a year: 4; weeks in a year: 52; colours in a rainbow: 7; wheels on a bicycle: 2
wheels on a car: 4; eggs in a dozen: 12; fingers on a hand: 5; years in a century: 100; strings on a violin: 4
players in a football team: 11; cents in a dollar: 100; oceans on Earth: 5; years in a decade: 10
meters in a kilometer: 1000; grams in a kilogram: 1000; legs on a chair: 4""")

OPPOSITES = table("""hot: cold; big: small; up: down; happy: sad; fast: slow; day: night; black: white; light: dark
open: closed; new: old; good: bad; high: low; hard: soft; full: empty; rich: poor; wet: dry; loud: quiet; long: short
strong: weak; early: late; left: right; inside: outside; near: far; clean: dirty; first: last; easy: difficult
thick: thin; wide: narrow; deep: shallow; true: false; always: never; love: hate; push: pull; win: lose; begin: end
give: take; buy: sell; laugh: cry; asleep: awake; young: old; brave: afraid; kind: mean; heavy: light; sweet: sour
north: south; east: west; summer: winter; over: under; before: after; yes: no; friend: enemy; top: bottom""")

PLURALS = table("""cat: cats; dog: dogs; mouse: mice; child: children; foot: feet; tooth: teeth; goose: geese; man: men
woman: women; sheep: sheep; fish: fish; box: boxes; fox: foxes; bus: buses; dish: dishes; church: churches; baby: babies
city: cities; story: stories; berry: berries; leaf: leaves; knife: knives; wolf: wolves; life: lives; wife: wives
half: halves; person: people; ox: oxen; potato: potatoes; tomato: tomatoes; hero: heroes; book: books; tree: trees
house: houses; glass: glasses; watch: watches; brush: brushes; toy: toys; key: keys; day: days; boy: boys; lady: ladies
puppy: puppies; cherry: cherries; deer: deer; shelf: shelves; thief: thieves; bench: benches; apple: apples; star: stars
bird: birds; car: cars; pen: pens; ship: ships; flower: flowers; class: classes; party: parties; country: countries""")

PAST = table("""go: went; run: ran; eat: ate; see: saw; come: came; make: made; take: took; give: gave; write: wrote
sing: sang; swim: swam; drink: drank; sleep: slept; fly: flew; buy: bought; think: thought; teach: taught; find: found
have: had; say: said; walk: walked; play: played; jump: jumped; look: looked; begin: began; break: broke; speak: spoke
bring: brought; catch: caught; grow: grew; know: knew; sit: sat; stand: stood; win: won; read: read; help: helped""")

RHYMES = """cat hat; dog frog; moon spoon; star car; tree bee; house mouse; cake lake; rain train; ball wall; fish dish
king ring; bed red; sun fun; book cook; light night; boat coat; snow slow; day play; fox box; bear pear; hill mill
sand hand; bell well; nose rose; fly sky; goat boat; hen pen; pig wig; duck truck; clock sock; shoe blue; rock clock
blue shoe; pan man; red bed; hat cat; mouse house; ring king; pen hen; sky fly; lake cake; night light; box fox"""

DEFINITIONS = table("""ice: frozen water; a river: water that flows to the sea; a desert: a very dry place with little rain
a forest: a place with many trees; an island: land with water all around it; a volcano: a mountain that can throw out hot lava
a violin: a musical instrument with four strings; a library: a place where you can read and borrow books
a museum: a place that shows old or beautiful things; a hospital: a place where sick people get help
a school: a place where children learn; honey: a sweet food made by bees; bread: a food baked from flour and water
cheese: a food made from milk; butter: a soft food made from cream; steam: water that became a gas; wind: air that moves
rain: water that falls from clouds; snow: frozen water that falls as white flakes; a cloud: many tiny drops of water in the sky
a rainbow: a band of colours made by sun and rain; a shadow: a dark shape where light is blocked; a star: a giant ball of hot gas
a planet: a large round body that moves around a star; a map: a picture of a place seen from above
a clock: a thing that shows the time; a compass: a thing that shows where north is; a telescope: a tool for looking at far things
a microscope: a tool for looking at tiny things; a thermometer: a tool that measures how warm it is; an umbrella: a thing that keeps rain off you
a bridge: a way built over water or a road; a seed: the small thing that a plant grows from; a root: the part of a plant under the ground
a poem: a short text with beautiful words; a noun: a word that names a person, a place or a thing; a verb: a word for something you do
an adjective: a word that describes a noun; a triangle: a shape with three sides; a square: a shape with four equal sides
a circle: a perfectly round shape; an even number: a number that you can split into two equal halves; gravity: the force that pulls things down
a robot: a machine that can do work by itself; a computer: a machine that works with information
a browser: a program that shows web pages; a dictionary: a book that explains words; a calendar: a list of the days of the year
a friend: a person whom you like and trust; wool: the soft hair of sheep; silk: a thin thread made by silkworms
a fossil: the trace of an animal or plant in old stone; an ocean: a very large body of salt water; a waterfall: a river that falls over a cliff""")

GENERAL = [
    ("The sun is a star.", ["Is the sun a star or a planet?", "What is the sun?", "What kind of thing is the sun?"]),
    ("The moon goes around the Earth.", ["What does the moon go around?", "What does the moon orbit?", "What does the moon do?"]),
    ("The Earth goes around the sun.", ["What does the Earth go around?", "What does the Earth orbit?", "Does the Earth go around the sun?"]),
    ("The sky is blue because the air scatters blue light the most.",
     ["Why is the sky blue?", "What makes the sky blue?", "Why does the sky look blue?", "Explain why the sky is blue."]),
    ("Water freezes at 0 degrees Celsius.",
     ["When does water freeze?", "At what temperature does water freeze?", "How cold must water be to freeze?"]),
    ("Water boils at 100 degrees Celsius.",
     ["When does water boil?", "At what temperature does water boil?", "How hot must water be to boil?"]),
    ("Bees make honey.", ["What do bees make?", "Who makes honey?", "Which animal makes honey?", "Where does honey come from?"]),
    ("Milk comes from cows.", ["Where does milk come from?", "Which animal gives milk?", "Who gives us milk?"]),
    ("Wool comes from sheep.", ["Where does wool come from?", "Which animal gives wool?", "Who gives us wool?"]),
    ("Bread is made from flour.", ["What is bread made from?", "What is bread made of?", "What do you need to make bread?"]),
    ("Paper is made from wood.", ["What is paper made from?", "What is paper made of?", "Where does paper come from?"]),
    ("Glass is made from sand.", ["What is glass made from?", "What is glass made of?", "Where does glass come from?"]),
    ("Cheese is made from milk.", ["What is cheese made from?", "What is cheese made of?", "What do you need to make cheese?"]),
    ("Plants need water, light and air to grow.",
     ["What do plants need?", "What does a plant need to grow?", "What do plants need to grow?"]),
    ("Fish breathe with gills.", ["How do fish breathe?", "What do fish breathe with?", "How does a fish breathe?"]),
    ("The blue whale is the biggest animal.",
     ["What is the biggest animal?", "Which animal is the biggest?", "What is the largest animal in the world?"]),
    ("The giraffe is the tallest animal.",
     ["What is the tallest animal?", "Which animal is the tallest?", "Which animal has the longest neck?"]),
    ("The cheetah is the fastest land animal.",
     ["What is the fastest animal?", "Which animal is the fastest on land?", "Which animal runs the fastest?"]),
    ("Mount Everest is the highest mountain.",
     ["What is the highest mountain?", "Which mountain is the highest?", "What is the tallest mountain in the world?"]),
    ("The Pacific is the largest ocean.",
     ["What is the largest ocean?", "Which ocean is the biggest?", "What is the biggest ocean in the world?"]),
    ("Russia is the largest country.",
     ["What is the largest country?", "Which country is the biggest?", "What is the biggest country in the world?"]),
    ("Asia is the largest continent.",
     ["What is the largest continent?", "Which continent is the biggest?", "What is the biggest continent in the world?"]),
    ("William Shakespeare wrote Romeo and Juliet.",
     ["Who wrote Romeo and Juliet?", "Who is the author of Romeo and Juliet?", "Who was the writer of Romeo and Juliet?"]),
    ("Leonardo da Vinci painted the Mona Lisa.",
     ["Who painted the Mona Lisa?", "Who is the painter of the Mona Lisa?", "Who made the Mona Lisa?"]),
    ("Neil Armstrong was the first person on the moon.",
     ["Who was the first person on the moon?", "Who walked on the moon first?", "Who first walked on the moon?"]),
    ("The sun rises in the east.", ["Where does the sun rise?", "In which direction does the sun rise?", "On which side does the sun come up?"]),
    ("The sun sets in the west.", ["Where does the sun set?", "In which direction does the sun set?", "On which side does the sun go down?"]),
    ("The seasons are spring, summer, autumn and winter.",
     ["What are the seasons?", "What are the four seasons?", "Name the four seasons.", "List the seasons."]),
    ("Spring comes after winter.", ["What comes after winter?", "Which season comes after winter?", "What season follows winter?"]),
    ("Summer comes after spring.", ["What comes after spring?", "Which season comes after spring?", "What season follows spring?"]),
    ("Autumn comes after summer.", ["What comes after summer?", "Which season comes after summer?", "What season follows summer?"]),
    ("Winter comes after autumn.", ["What comes after autumn?", "Which season comes after autumn?", "What season follows autumn?"]),
    ("The primary colours are red, yellow and blue.",
     ["What are the primary colours?", "Name the primary colours.", "Which colours are primary colours?"]),
    ("The vowels are a, e, i, o and u.", ["What are the vowels?", "Name the vowels.", "List the vowels.", "Which letters are vowels?"]),
    ("The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.",
     ["What are the days of the week?", "Name the days of the week.", "List the days of the week."]),
    ("The planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune.",
     ["What are the planets?", "Name the planets.", "List the planets.", "What are the planets of the solar system?"]),
    ("The five senses are sight, hearing, smell, taste and touch.",
     ["What are the five senses?", "Name the five senses.", "List the five senses.", "What are the senses?"]),
    ("Jupiter is the largest planet.", ["What is the largest planet?", "Which planet is the biggest?", "What is the biggest planet?"]),
    ("Mercury is the smallest planet.", ["What is the smallest planet?", "Which planet is the smallest?", "What is the tiniest planet?"]),
    ("Mars is called the red planet.", ["Which planet is the red planet?", "What is the red planet?", "Which planet is red?"]),
    ("Saturn is famous for its rings.", ["Which planet has rings?", "Which planet is famous for its rings?", "What planet has big rings?"]),
    ("Mercury is closest to the sun.",
     ["Which planet is closest to the sun?", "What planet is nearest to the sun?", "Which planet is next to the sun?"]),
    ("We live on the planet Earth.", ["Which planet do we live on?", "On which planet do we live?", "What is our planet called?"]),
    ("The opposite of a friend is an enemy.", ["What is the opposite of a friend?", "Who is the opposite of a friend?", "What do you call the opposite of a friend?"]),
    ("You use your eyes to see.", ["What do you see with?", "What do we use to see?", "Which part of the body do you see with?"]),
    ("You use your ears to hear.", ["What do you hear with?", "What do we use to hear?", "Which part of the body do you hear with?"]),
    ("You use your nose to smell.", ["What do you smell with?", "What do we use to smell?", "Which part of the body do you smell with?"]),
    ("The heart pumps blood through the body.", ["What does the heart do?", "Why do we need a heart?", "What is the heart for?"]),
    ("We sleep so that the body and the mind can rest.", ["Why do we sleep?", "Why do people sleep?", "Why do we need sleep?"]),
    ("Leaves fall in autumn.", ["When do leaves fall?", "In which season do leaves fall?", "When do trees lose their leaves?"]),
    ("Christmas is in December.", ["When is Christmas?", "In which month is Christmas?", "What month is Christmas in?"]),
]

ODD_PLURALS = {"sheep": "sheep", "mouse": "mice", "wolf": "wolves", "goose": "geese", "deer": "deer", "fish": "fish", "fox": "foxes",
               "butterfly": "butterflies", "salmon": "salmon", "octopus": "octopuses"}

COMMON = [
    ("capital", CAPITALS, "The capital of {k} is {v}.",
     ["What is the capital of {k}?", "What's the capital of {k}?", "Name the capital of {k}.", "Tell me the capital of {k}.",
      "Which city is the capital of {k}?", "What is the capital city of {k}?", "What is {k}'s capital?", "capital of {k}",
      "Do you know the capital of {k}?", "Which city is {k}'s capital?"]),
    ("continent", CONTINENTS, "{K} is in {v}.",
     ["Which continent is {k} in?", "What continent is {k} in?", "On which continent is {k}?", "Where is {k}?",
      "In which part of the world is {k}?", "Name the continent of {k}.", "Where in the world is {k}?"]),
    ("language", LANGUAGES, "People in {k} speak {v}.",
     ["What language do people speak in {k}?", "Which language is spoken in {k}?", "What do people speak in {k}?",
      "What language is spoken in {k}?", "What is the language of {k}?", "Which language do they speak in {k}?"]),
    ("sound", SOUNDS, "{A} {v}.",
     ["What sound does {a} make?", "What does {a} say?", "Which sound does {a} make?", "How does {a} sound?",
      "What noise does {a} make?", "Tell me the sound of {a}.", "What is the sound of {a}?", "What sound do {s} make?",
      "What do {s} say?"]),
    ("young", YOUNG, "A baby {k} is called {av}.",
     ["What is a baby {k} called?", "What do you call a baby {k}?", "What is the name for a young {k}?",
      "What is a young {k} called?", "What do you call the young of {a}?", "How do you call a baby {k}?", "What are baby {s} called?"]),
    ("home", HOMES, "{A} lives in {av}.",
     ["Where does {a} live?", "What is the home of {a}?", "What is the home of {a} called?", "Where do you find {a}?",
      "What does {a} live in?", "What is the house of {a}?", "Where do {s} live?"]),
    ("food", FOOD, "{A} eats {v}.",
     ["What does {a} eat?", "What food does {a} like?", "What is the food of {a}?", "What can {a} eat?",
      "What does {a} like to eat?", "Tell me what {a} eats.", "What do {s} eat?", "What do {s} like to eat?"]),
    ("class", CLASSES, "{A} is {av}.",
     ["What kind of animal is {a}?", "What type of animal is {a}?", "Which group of animals is {a} in?",
      "Is {a} a mammal, a bird or something else?", "What sort of animal is {a}?", "To which animal group does {a} belong?",
      "What is {a}?", "What are {s}?"]),
    ("legs", LEGS, "{A} has {v} legs.",
     ["How many legs does {a} have?", "How many legs has {a}?", "What number of legs does {a} have?",
      "Count the legs of {a}.", "Tell me how many legs {a} has.", "How many legs do {s} have?"]),
    ("job", JOBS, "{A} {v}.",
     ["What does {a} do?", "What is the job of {a}?", "What is the work of {a}?", "Tell me what {a} does.",
      "What kind of work does {a} do?", "Explain the job of {a}.", "What is {a}?"]),
    ("sides", SIDES, "{A} has {v} sides.",
     ["How many sides does {a} have?", "How many sides has {a}?", "Count the sides of {a}.",
      "What number of sides does {a} have?", "Tell me how many sides {a} has."]),
    ("count", COUNTS, "There are {v} {k}.",
     ["How many {k}?", "How many {k} are there?", "How many {h} are there {t}?", "What is the number of {k}?",
      "Tell me the number of {k}.", "Do you know how many {k} there are?"]),
    ("opposite", OPPOSITES, "The opposite of {k} is {v}.",
     ["What is the opposite of {k}?", "What's the opposite of {k}?", "Opposite of {k}?", "Give me the opposite of {k}.",
      "Tell me the opposite of {k}.", "Which word is the opposite of {k}?", "What word means the opposite of {k}?",
      "What is the opposite of \"{k}\"?", "Find the opposite of {k}."]),
    ("plural", PLURALS, "The plural of {k} is {v}.",
     ["What is the plural of {k}?", "What's the plural of {k}?", "Plural of {k}?", "Give me the plural of {k}.",
      "Tell me the plural of {k}.", "How do you write the plural of {k}?", "What is the plural form of {k}?",
      "One {k}, two what?", "What is the plural of \"{k}\"?"]),
    ("past", PAST, "The past tense of {k} is {v}.",
     ["What is the past tense of {k}?", "What's the past tense of {k}?", "Past tense of {k}?", "Give me the past tense of {k}.",
      "Tell me the past tense of {k}.", "What is the past of {k}?", "What is the past form of {k}?",
      "What is the past tense of \"{k}\"?"]),
    ("rhyme", dict(pair.split() for pair in RHYMES.replace("\n", ";").split(";")), "{V} rhymes with {k}.",
     ["What rhymes with {k}?", "Which word rhymes with {k}?", "Give me a rhyme for {k}.", "Tell me a word that rhymes with {k}.",
      "Find a rhyme for {k}.", "Rhyme with {k}.", "Can you find a rhyme for {k}?", "What word rhymes with \"{k}\"?",
      "Give me a word that rhymes with {k}."]),
    ("definition", DEFINITIONS, "{K} is {v}.",
     ["What is {k}?", "What's {k}?", "Tell me what {k} is.", "Explain what {k} is.", "Can you explain what {k} is?",
      "What does {k} mean?", "Do you know what {k} is?", "Define {k}."]),
]


def _common() -> list[Fact]:
    out = []
    for task, entries, answer, questions in COMMON:
        for key, value in entries.items():
            head, _, tail = key.partition(" ")  # "days in a week" is asked as "How many days are there in a week?"
            bare = task == "definition"
            words = {
                "k": key, "K": capitalised(key), "v": value, "V": capitalised(value), "h": head, "t": tail,
                "a": key if bare else article(key), "A": capitalised(key if bare else article(key)),
                "av": value if value == "water" else article(value), "s": ODD_PLURALS.get(key, key + "s"),
            }
            out.append(Fact(task, answer.format(**words).replace("..", "."), tuple(question.format(**words) for question in questions)))
    return out


def _colours() -> list[Fact]:
    out = []
    for thing, colour in COLOURS.items():
        named = thing if thing in NO_ARTICLE else f"the {thing}" if thing in DEFINITE else article(thing)
        questions = []
        for word in ("colour", "color"):
            questions += [f"What {word} is {named}?", f"Which {word} is {named}?", f"What is the {word} of {named}?",
                          f"Which {word} does {named} have?", f"Tell me the {word} of {named}."]
        out.append(Fact("colour", f"{capitalised(named)} is {colour}.", tuple(questions)))
    for (one, two), mixed in MIXES.items():
        questions = []
        for a, b in ((one, two), (two, one)):
            questions += [f"What do you get when you mix {a} and {b}?", f"Mix {a} and {b}.", f"What colour do {a} and {b} make?",
                          f"What color do {a} and {b} make?", f"Which colour is {a} and {b} together?"]
        out.append(Fact("colour", f"{capitalised(one)} and {two} make {mixed}.", tuple(questions)))
    return out


def _kinds() -> list[Fact]:
    out = []
    for thing, kind in KINDS.items():
        named = thing if thing in KINDS_NO_ARTICLE else article(thing)
        questions = (f"What kind of thing is {named}?", f"What type of thing is {named}?", f"What sort of thing is {named}?",
                     f"Is {named} {article(kind)}?", f"To which group does {named} belong?")
        out.append(Fact("kind", f"{capitalised(named)} is {article(kind)}.", questions))
    return out


def _calendar() -> list[Fact]:
    out = []
    for names, what, last in ((DAYS, "day", "week"), (MONTHS, "month", "year")):
        for i, name in enumerate(names):
            after, before = names[(i + 1) % len(names)], names[i - 1]
            out.append(Fact("calendar", f"{after} comes after {name}.", (
                f"What {what} comes after {name}?", f"Which {what} comes after {name}?", f"What comes after {name}?",
                f"Which {what} follows {name}?", f"What is the {what} after {name}?", f"What is the next {what} after {name}?")))
            out.append(Fact("calendar", f"{before} comes before {name}.", (
                f"What {what} comes before {name}?", f"Which {what} comes before {name}?", f"What comes before {name}?",
                f"What is the {what} before {name}?", f"Which {what} is right before {name}?")))
            out.append(Fact("calendar", f"The {ORDINALS[i]} {what} of the {last} is {name}.", (
                f"What is the {ORDINALS[i]} {what} of the {last}?", f"Which {what} is the {ORDINALS[i]} of the {last}?",
                f"Name the {ORDINALS[i]} {what} of the {last}.", f"Which is the {ORDINALS[i]} {what} of the {last}?")))
    for month, days in MONTH_DAYS.items():
        out.append(Fact("calendar", f"{month} has {days} days.", (
            f"How many days does {month} have?", f"How many days are in {month}?", f"How many days are there in {month}?",
            f"How long is {month}?", f"What is the number of days in {month}?")))
    for i, planet in enumerate(PLANETS):
        out.append(Fact("planet", f"{planet} is the {ORDINALS[i]} planet from the sun.", (
            f"What is the {ORDINALS[i]} planet from the sun?", f"Which planet is {ORDINALS[i]} from the sun?",
            f"Name the {ORDINALS[i]} planet.", f"What is the {ORDINALS[i]} planet?", f"Which is the {ORDINALS[i]} planet from the sun?")))
        if planet != "Earth":
            out.append(Fact("planet", f"{planet} is a planet.", (
                f"What is {planet}?", f"What kind of thing is {planet}?", f"Tell me what {planet} is.", f"Is {planet} a star or a planet?")))
    return out


def _cities() -> list[Fact]:
    out = []
    for country, city in CAPITALS.items():
        out.append(Fact("city", f"{city} is the capital of {country}.", (
            f"What is {city}?", f"Where is {city}?", f"Which country's capital is {city}?", f"{city} is the capital of which country?",
            f"In which country is {city}?", f"Which country has {city} as its capital?", f"Tell me about {city}.")))
    for country, continent in CONTINENTS.items():
        out.append(Fact("city", f"{capitalised(country)} is a country in {continent}.", (
            f"What is {country}?", f"Tell me about {country}.", f"Is {country} a country or a city?", f"What kind of place is {country}?")))
    return out


def yes_or_no() -> list[Fact]:
    """Questions that a fact affirms or denies; the wrong values are those of other entries."""
    out = []

    def claims(subject: str, value: str, question: str, statement: str) -> list[str]:
        statement = statement.format(k=subject, v=value)
        return [question.format(k=subject, v=value), f"Is it true that {statement}?", f"{capitalised(statement)}, right?"]

    def both(entries: dict[str, str], question: str, statement: str, answer: str, named=str) -> None:
        keys = list(entries)
        for i, key in enumerate(keys):
            subject, value = named(key), entries[key]
            others = [entries[keys[(i + step) % len(keys)]] for step in (3, 5, 7, 11)]
            wrong = [claim for other in others if other != value for claim in claims(subject, other, question, statement)]
            known = answer.format(k=subject, v=value)
            out.append(Fact("yes or no", f"Yes, {known}", tuple(claims(subject, value, question, statement))))
            out.append(Fact("yes or no", f"No, {known}", tuple(wrong)))

    def thing(name: str) -> str:
        return name if name in NO_ARTICLE else f"the {name}" if name in DEFINITE else article(name)

    kinds = {key: article(value) for key, value in CLASSES.items()}
    both(kinds, "Is {k} {v}?", "{k} is {v}", "{k} is {v}.", article)
    both(CAPITALS, "Is {v} the capital of {k}?", "{v} is the capital of {k}", "the capital of {k} is {v}.")
    both(COLOURS, "Is {k} {v}?", "{k} is {v}", "{k} is {v}.", thing)
    both(CONTINENTS, "Is {k} in {v}?", "{k} is in {v}", "{k} is in {v}.")
    both(OPPOSITES, "Is {v} the opposite of {k}?", "{v} is the opposite of {k}", "the opposite of {k} is {v}.")
    both(SOUNDS, "Do you think that {k} {v}?", "{k} {v}", "{k} {v}.", article)
    return out


def facts() -> list[Fact]:
    everything = _common() + _colours() + _kinds() + _calendar() + _cities()
    everything += [Fact("general", answer, tuple(questions)) for answer, questions in GENERAL]
    # The first fact that claims a question keeps it, so that no question has two answers.
    claimed, out = {q.lower() for fact in yes_or_no() for q in fact.questions}, []
    for fact in everything:
        fresh = tuple(q for q in fact.questions if q.lower() not in claimed)
        claimed |= {q.lower() for q in fresh}
        if fresh:
            out.append(Fact(fact.task, fact.answer, fresh))
    return out


WORDS = sorted(set("""
apple bread cheese honey lemon melon orange pear plum grape cherry banana carrot potato tomato onion pumpkin salad soup
sugar butter water milk juice cookie cake candy rice pizza tiger lion zebra camel horse sheep goat mouse rabbit kitten puppy
monkey panda koala whale shark dolphin turtle snake lizard frog eagle parrot robin swan duck goose chicken turkey spider
butterfly beetle dragon unicorn giant fairy wizard pirate knight castle tower bridge river ocean island forest garden meadow
mountain valley desert beach flower tulip daisy rose tree leaf branch seed grass cloud rain snow storm thunder wind summer winter
spring autumn morning evening night moon star planet earth rocket train plane boat bicycle truck tractor bus car wheel
engine hammer ladder rope lamp candle clock mirror window door table chair sofa pillow blanket carpet kitchen bedroom
school teacher student pencil paper book letter number story poem song music piano violin guitar drum trumpet dance paint
picture colour yellow green purple silver golden black white brown pink happy angry brave clever gentle hungry thirsty
quiet loud quick slow strong small large tiny funny friend family mother father sister brother baby child doctor farmer baker
sailor painter king queen prince princess crown jacket shirt button pocket shoe glove scarf hat umbrella basket bottle
box cup plate spoon fork knife ball kite puzzle game winner hello world computer robot button screen mouse keyboard
house street city village market shop bank office tabloom browser
cat dog cow pig hen fox bee ant owl bat sun sea sky egg ice map key pen bag bed toy
""".split()))
