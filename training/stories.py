"""Short stories from a grammar: a hero, a plot in beats, an ending.

Every `{he}`, `{him}` or `{his}` means the hero and nobody else, so a story can
be checked for right pronouns: the other gender's words must not occur in it.
"""

from dataclasses import dataclass
from random import Random

GIRLS = "Lily Mia Ruby Anna Zoe Nora Ella Rosa Ivy Daisy Lucy Emma Clara Hana Tara".split()
BOYS = "Tom Ben Max Sam Leo Jack Finn Oscar Theo Noah Hugo Omar Felix Luca Toby".split()
PRONOUNS = {
    "girl": {"he": "she", "him": "her", "his": "her"},
    "boy": {"he": "he", "him": "him", "his": "his"},
}

KINDS = """fox bear rabbit mouse cat dog lion tiger elephant monkey owl duck frog hedgehog squirrel
horse cow pig sheep goat wolf deer penguin turtle snail bee ant spider butterfly whale dolphin
crab otter beaver badger mole kitten puppy duckling lamb pony donkey parrot crow goose hen swan
panda koala kangaroo giraffe zebra camel hippo crocodile dinosaur dragon unicorn robot wizard
witch knight pirate king queen prince princess giant fairy elf mermaid ghost snowman farmer
baker sailor painter teacher doctor gardener astronaut clown detective inventor chicken bat
seal sparrow robin raccoon lizard cloud star train boat car teddy walrus squid shark octopus jellyfish lobster worm beetle
ladybird dragonfly moth wasp grasshopper mosquito eagle falcon pigeon peacock flamingo ostrich pelican stork toucan yak llama
buffalo moose reindeer antelope leopard cheetah jaguar panther hyena gorilla lemur sloth armadillo porcupine ferret weasel
hamster rat chipmunk gecko iguana toad salamander newt rhino salmon trout seahorse starfish goldfish monster goblin troll
alien vampire mummy cowboy captain soldier guard nurse judge tailor cook miller shepherd hunter fisherman postman singer
dancer drummer poet student grandmother grandfather baby uncle aunt spoon teapot candle clock piano shoe pencil cactus
mushroom pumpkin potato carrot apple snowflake raindrop balloon kite bicycle tractor rocket bus""".split()
FEMALE = {"grandmother", "aunt", "witch", "queen", "princess", "mermaid", "hen", "cow", "fairy"}
MALE = {"grandfather", "uncle", "cowboy", "fisherman", "postman", "king", "prince", "wizard", "snowman"}

TRAITS = "little small kind curious shy brave clever cheerful gentle young friendly quiet happy".split()
PLACES = {
    "forest": "in a green forest",
    "village": "in a small village",
    "farm": "on a sunny farm",
    "river": "by a wide river",
    "sea": "near the blue sea",
    "mountain": "at the foot of a tall mountain",
    "castle": "in an old castle",
    "garden": "in a big garden",
    "city": "in a busy city",
    "island": "on a tiny island",
    "lake": "beside a quiet lake",
    "meadow": "in a meadow full of flowers",
}
HOBBIES = [
    "watch the clouds", "sing songs", "collect shiny stones", "play hide and seek", "read books",
    "dance in the rain", "count the stars", "pick berries", "draw pictures", "climb hills",
]
OBJECTS = """hat kite ball lantern book bell drum scarf key balloon basket spoon ring cup
blanket flute map umbrella coat whistle""".split()
COLOURS = "red blue green yellow golden silver purple orange".split()
HELPERS = [
    "old owl", "wise turtle", "kind duck", "friendly squirrel", "tiny mouse", "tall deer", "gentle cow",
    "cheerful robin", "clever crow", "busy beaver", "kind farmer", "old sailor", "quiet cat",
]

# A plot is a list of beats, a beat a list of ways to tell it.
# {o} is an object, {c} its colour, {a_h} a helper ("an old owl"), {the_h} the same again, {f} a friend's name.
PLOTS = {
    "losing something": [
        ["{n} had a {c} {o} that {he} loved very much.", "The thing {n} loved most was {his} {c} {o}."],
        ["One morning, the {o} was gone.", "One day, {n} could not find the {o} anywhere."],
        ["{N} looked under the bed and behind the door, but it was not there.",
         "{N} looked high and low, but there was no {o}.", "{N} felt so sad that {he} began to cry."],
        ["Then {a_h} came by and asked, \"What is wrong?\"", "{A_h} saw {him} and stopped to help."],
        ["\"Think about where you were yesterday,\" said {the_h}.", "\"Let us look together,\" said {the_h}."],
        ["{N} remembered the old tree. They ran there, and the {o} was hanging on a branch!",
         "They followed the path back to the bridge, and there was the {o}!"],
        ["{N} hugged {the_h} and said, \"Thank you!\"", "{N} laughed and thanked {the_h} again and again."],
    ],
    "being afraid of the dark": [
        ["But {n} had a secret: {he} was afraid of the dark.", "Every night, {n} was afraid of the dark."],
        ["When the sun went down, {he} hid under {his} blanket.", "Every little sound made {him} shake."],
        ["One night, {n} heard someone crying outside.", "One night, there was a soft cry near the window."],
        ["It was {a_h} who was lost.", "{A_h} could not find the way home."],
        ["{N} was scared, but {he} took {his} lantern and went out.",
         "{N} took a deep breath, lit {his} lantern and opened the door."],
        ["Together they walked under the stars until they found the right path.",
         "Step by step, they walked through the night, and nothing bad happened."],
        ["\"You are very brave,\" said {the_h}.", "\"The dark is not so bad with a friend,\" said {the_h}."],
    ],
    "a birthday present": [
        ["Tomorrow was the birthday of {his} best friend, {f}.", "{His} best friend {f} was going to have a birthday."],
        ["{N} wanted to give {f} a {c} {o}.", "{N} decided to make a {c} {o} for {f}."],
        ["{He} worked all day, but then the rain came and spoiled it.",
         "But on the way home {he} fell, and the {o} broke in two."],
        ["{N} sat down and did not know what to do.", "A tear ran down {his} face."],
        ["{A_h} saw this and said, \"I will help you.\"", "\"Do not worry,\" said {a_h}. \"We can fix it.\""],
        ["They worked together until the moon was high, and the {o} looked better than before.",
         "With some string and some paint, they made it as good as new."],
        ["The next day {f} opened the box and smiled. \"It is the best present ever!\"",
         "{F} loved the present, and they all ate cake together."],
    ],
    "a big storm": [
        ["One afternoon, dark clouds filled the sky.", "One evening, the wind began to howl."],
        ["A big storm came, and the rain fell like a river.", "Thunder rolled and the trees bent in the storm."],
        ["{N} was safe at home, but then {he} heard a call for help.", "From {his} window, {n} heard a cry."],
        ["{A_h} was stuck on a rock in the water.", "{A_h} was caught under a fallen branch."],
        ["{N} took a long rope and ran outside.", "{N} did not wait. {He} ran into the rain with a rope."],
        ["{He} pulled and pulled until {the_h} was free.", "\"Hold on!\" {he} called, and {he} pulled {the_h} to safety."],
        ["They drank warm milk by the fire until the storm was over.",
         "When the sun came out, everyone cheered for {n}."],
    ],
    "getting lost": [
        ["One day, {n} followed a {c} butterfly far from home.", "One day, {n} went for a walk and forgot the time."],
        ["When {he} looked around, {he} did not know where {he} was.", "Soon all the trees looked the same. {N} was lost!"],
        ["{He} walked left and {he} walked right, but {he} could not find the path.",
         "{He} called and called, but nobody answered."],
        ["At last {he} met {a_h}.", "Just then, {a_h} came around the corner."],
        ["\"Please, can you show me the way home?\" asked {n}.", "\"I am lost,\" said {n} in a small voice."],
        ["\"Follow the river,\" said {the_h}. \"It goes to your home.\"", "\"Look for the bright star,\" said {the_h}. \"It will lead you home.\""],
        ["{N} did so, and before long {he} saw the lights of home.",
         "Soon {n} was back in {his} warm bed, safe and happy."],
    ],
    "sharing": [
        ["One day, {n} found a basket of sweet apples.", "One day, {n} baked a big honey cake."],
        ["\"This is all mine,\" {he} said, and {he} hid it away.", "{He} did not want to give any of it away."],
        ["{A_h} came and asked for a little bite.", "Then {a_h}, who was very hungry, knocked on the door."],
        ["\"No,\" said {n}, and {the_h} went away.", "{N} shook {his} head, and {the_h} left with a sigh."],
        ["But eating alone was no fun, and {n} felt bad.", "That night, {n} felt lonely and could not sleep."],
        ["So {he} ran after {the_h} and said, \"I am sorry. Let us share.\"",
         "The next morning {he} found {the_h} and gave away half of it."],
        ["They ate and laughed together, and it tasted better than ever.",
         "They became good friends and ate every bite together."],
    ],
    "learning something new": [
        ["More than anything, {n} wanted to learn to {s}.", "{N} had one big dream: {he} wanted to {s}."],
        ["{He} tried once, and {he} tried twice, but it did not work.", "On the first day, everything went wrong."],
        ["\"I will never learn it,\" said {n}.", "{N} wanted to give up."],
        ["{A_h} smiled and said, \"Try again, a little every day.\"", "\"Nobody can do it on the first day,\" said {a_h}."],
        ["So {n} practised every morning, and {the_h} helped.", "Day after day, {n} tried again."],
        ["Then one sunny day, {he} did it!", "And at the end of the week, {n} could {s}!"],
        ["Everyone clapped, and {n} was very proud.", "\"I knew you could do it,\" said {the_h}."],
    ],
    "making a friend": [
        ["{N} was new there and had no friends yet.", "But {n} often felt alone, for {he} had nobody to play with."],
        ["Every day, {he} watched the others play.", "{He} sat under a tree with {his} {c} {o} and waited."],
        ["One day, {he} saw {a_h} sitting alone too.", "Then {a_h} came and sat down nearby, looking shy."],
        ["{N} was nervous, but {he} said, \"Hello! Do you want to play?\"",
         "{N} held out {his} {o} and asked, \"Would you like to play with me?\""],
        ["{The_h} smiled and said, \"Yes, I would love to!\"", "\"I hoped that you would ask,\" said {the_h}."],
        ["They played all day and told each other funny stories.", "They ran, they laughed and they shared their lunch."],
        ["{N} was never lonely again.", "Now {n} had a true friend."],
    ],
    "growing a seed": [
        ["One spring day, {n} found a tiny seed.", "{A_h} gave {n} a tiny seed."],
        ["{He} put it in the ground and gave it water.", "{He} planted it in a pot and put it in the sun."],
        ["{N} waited one day and two days, but nothing happened.", "Every morning {he} looked, but there was only earth."],
        ["\"It will never grow,\" {he} said.", "\"Maybe it is a bad seed,\" {he} thought."],
        ["\"Good things take time,\" said a voice. It was the rain.", "\"Wait a little more,\" sang the birds."],
        ["So {n} kept watering it, and one morning there was a green leaf!",
         "{N} did not give up, and at last a small green leaf came out."],
        ["By summer it was the tallest sunflower of all.", "In autumn there was a giant orange pumpkin, big enough for everyone."],
    ],
    "telling the truth": [
        ["One day, {n} was playing with {his} ball inside the house.", "One day, {n} ran through the kitchen much too fast."],
        ["Crash! {Grandma}'s {c} cup fell and broke.", "Bump! {Grandma}'s {c} bowl fell on the floor and broke."],
        ["{N} was scared and hid the pieces under the rug.", "{N} thought, \"Nobody saw me. I will say nothing.\""],
        ["But all day long {he} had a bad feeling inside.", "But at dinner {he} could not eat at all."],
        ["At last {n} said, \"{Grandma}, I broke it. I am sorry.\"", "\"{Grandma}, it was me,\" {n} said at last."],
        ["{Grandma} gave {him} a hug. \"Thank you for telling me the truth,\" came the answer.",
         "\"It was only a thing,\" said {Grandma}. \"I am glad that you told me.\""],
        ["Together they glued the pieces, and {n} felt light again.", "Then they mended it together and had some tea."],
    ],
    "finding a treasure": [
        ["One day, {n} found an old map inside a {o}.", "One day, the wind blew an old map to {n}'s door."],
        ["There was a {c} cross on it. \"Treasure!\" cried {n}.", "\"It is a treasure map!\" said {n}, and {his} eyes grew big."],
        ["{He} asked {a_h} to come along.", "{A_h} wanted to come too."],
        ["They crossed a river, climbed a hill and went into a cave.", "They walked over the bridge and around the dark pond."],
        ["But the way was closed by a heavy stone.", "But a deep hole was in their way."],
        ["They pushed together, one, two, three, and it rolled aside.", "{The_h} had an idea, and they made a bridge from a log."],
        ["In the chest there were toys for everyone, and they shared them all.",
         "The treasure was a box of old songs, and they sang them all the way home."],
    ],
    "helping someone": [
        ["One day, {n} heard a small voice near the path.", "One morning, {n} was on {his} way to the market."],
        ["It was {a_h} with a thorn in one foot.", "There was {a_h} who was stuck in a net."],
        ["\"Please help me,\" said {the_h}.", "{The_h} could not move and looked very sad."],
        ["{N} was in a hurry, but {he} stopped and helped at once.", "Very gently, {n} set {the_h} free."],
        ["\"One day I will help you too,\" said {the_h}.", "\"I will not forget this,\" said {the_h}."],
        ["Not long after, {n} fell into a deep hole and could not get out.", "A week later, {n} lost {his} way in the snow."],
        ["Who came to help? It was {the_h}! Soon {n} was safe again.", "Then {the_h} came and brought {him} home."],
    ],
    "a race": [
        ["Every summer there was a big race, and {n} wanted to run in it.", "One day, there was a great race around the hill."],
        ["\"You are too slow,\" the others said.", "Everyone thought that {f} would win, and {f} thought so too."],
        ["One, two, three, go! At first {n} was the very last.", "When the race began, {n} was far behind."],
        ["But {f} stopped to rest under a tree and fell asleep.", "But the fast ones ran the wrong way, because they did not look."],
        ["{N} did not stop. Step by step, {he} went on.", "{N} kept going and looked only at the road."],
        ["At the end {n} was the first to cross the line!", "And who won the race? It was {n}!"],
        ["{F} said, \"Well done!\" and they shared the prize.", "The prize was a {c} {o}, and {n} wore a big smile."],
    ],
    "a wish": [
        ["One night, {n} saw a shooting star and made a wish.", "One night, a tiny star fell into {n}'s lap."],
        ["\"I wish that I could fly to the moon,\" {he} said.", "\"Make a wish,\" whispered the star. \"I want to see the moon,\" said {n}."],
        ["Whoosh! {He} rose up, higher than the trees and the clouds.", "A {c} light lifted {him} up into the sky."],
        ["On the moon {he} met {a_h} who lived there alone.", "There {he} found {a_h} having tea."],
        ["They jumped from stone to stone and made the stars ring like bells.", "They ate moon cheese and painted the clouds."],
        ["But soon {n} missed {his} home.", "Then {n} began to think of {his} own bed."],
        ["\"Close your eyes,\" said {the_h}, and when {n} opened them, {he} was back at home.",
         "{The_h} gave {him} a {c} {o}, and {n} slid home on a beam of light."],
    ],
}
MORALS = {
    "losing something": "friends make every problem smaller",
    "being afraid of the dark": "being brave means trying even when you are scared",
    "a birthday present": "a gift made with love is the best gift",
    "a big storm": "it is good to help when someone is in trouble",
    "getting lost": "it is good to ask for help",
    "sharing": "sharing makes everything better",
    "learning something new": "you can learn anything if you keep trying",
    "making a friend": "a kind word can start a friendship",
    "growing a seed": "good things take time",
    "telling the truth": "telling the truth makes your heart light",
    "finding a treasure": "the best treasure is the one you share",
    "helping someone": "kindness comes back to you",
    "a race": "you should never give up",
    "a wish": "there is no place like home",
}
SKILLS = ["swim", "sing", "dance", "paint", "ride a bike", "play the drum", "read", "skate"]
ENDINGS = [
    "From that day on, {n} knew that {moral}.",
    "And so {n} learned that {moral}.",
    "That night, {n} fell asleep with a smile, because now {he} knew that {moral}.",
]
OPENINGS = [
    "Once upon a time, there was {a_kind} named {n} who lived {place}. {He} loved to {hobby}.",
    "Once upon a time, {a_kind} named {n} lived {place}. {He} loved to {hobby}.",
    "There once was {a_kind} named {n}. {He} lived {place} and liked to {hobby}.",
    "{Place}, there lived {a_kind} named {n} who liked to {hobby}.",
]


def invented(rng: Random) -> str:
    """A word that nobody knows, such as "mirado"."""
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 3))) + rng.choice(["", "n", "r", "s"])


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" and not noun.startswith("uni") else "a ") + noun


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass
class Story:
    request: str  # what the user asks for
    text: str
    kind: str
    name: str
    gender: str
    place: str
    helper: str | None  # None where the plot has none
    moral: str


def _request(rng: Random, kind: str, name: str, place: str, plot: str, other: str | None) -> str:
    about = rng.choices(
        ["", f" about {article(kind)}", f" about {article(kind)} named {name}", f" about {article(kind)} called {name}",
         f" about {plot}", f" about {article(kind)} and {plot}", f" about {article(kind)} in {article(place)}", f" about {name}",
         f" about {article(kind)} and {article(other)}" if other else ""],
        weights=[6, 30, 12, 6, 10, 8, 8, 8, 14],
    )[0]
    return rng.choice(
        ["Tell me a story{}.", "Tell me a short story{}.", "Write a story{}.", "Write a short story{}.",
         "Can you tell me a story{}?", "I want to hear a story{}.", "Make up a story{}.", "Please tell me a story{}.",
         "Give me a bedtime story{}.", "A story{}, please.", "Could you write a little story{}?",
         "I would like a story{}."]
    ).format(about)


def story(rng: Random) -> Story:
    """One story and the request it answers."""
    child = rng.random() < 0.15
    kind = rng.choice(["girl", "boy"]) if child else rng.choice(KINDS)
    if kind in ("girl", "boy"):
        gender = kind
    elif kind in FEMALE or kind in MALE:
        gender = "girl" if kind in FEMALE else "boy"
    else:
        gender = rng.choice(["girl", "boy"])
    names = GIRLS if gender == "girl" else BOYS
    name, friend = rng.sample(names, 2)
    any_helper = rng.choice(HELPERS) if rng.random() < 0.5 else f"{rng.choice(TRAITS)} {rng.choice(KINDS)}"
    helper = any_helper if any_helper.split()[-1] != kind else "old toad"
    place = rng.choice(list(PLACES))
    plot = rng.choice(list(PLOTS))
    words = {
        "n": name, "f": friend, "o": rng.choice(OBJECTS), "c": rng.choice(COLOURS), "s": rng.choice(SKILLS),
        "a_h": article(helper), "the_h": "the " + helper.split()[-1], "place": PLACES[place],
        "a_kind": article(f"{rng.choice(TRAITS)} {kind}"), "hobby": rng.choice(HOBBIES), "moral": MORALS[plot],
        "Grandma": "Grandma", **PRONOUNS[gender],
    }
    words |= {capitalised(key): capitalised(value) for key, value in words.items()}
    beats = [rng.choice(OPENINGS)] + [rng.choice(ways) for ways in PLOTS[plot]] + [rng.choice(ENDINGS)]
    helped = any("{a_h}" in beat or "{A_h}" in beat for beat in beats)
    return Story(
        request=_request(rng, kind, name, place, plot, helper.split()[-1] if helped else None), text=" ".join(beats).format(**words),
        kind=kind, name=name, gender=gender, place=PLACES[place], helper=helper if helped else None, moral=MORALS[plot],
    )


def faults(text: str) -> list[str]:
    """What is wrong with a told story: pronouns, names, ending, loops."""
    found = []
    spoken = set(text.replace(",", " ").replace(".", " ").replace("!", " ").replace("?", " ").replace('"', " ").lower().split())
    female, male = spoken & {"she", "her"}, spoken & {"he", "him", "his"}
    if female and male:
        found.append("mixed pronouns")
    names = [name for name in GIRLS + BOYS if name.lower() in spoken or f"{name.lower()}'s" in spoken]
    if not 1 <= len(names) <= 2:
        found.append("a character changes")
    if (female and set(names) & set(BOYS)) or (male and set(names) & set(GIRLS)):
        found.append("pronoun disagrees with the name")
    if not any(text.endswith(moral + ".") for moral in MORALS.values()):
        found.append("no ending")
    sentences = text.split(". ")
    if len(sentences) != len(set(sentences)):
        found.append("repeats itself")
    return found
