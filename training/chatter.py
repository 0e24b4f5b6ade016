"""Small talk: greetings, who the model is, feelings, jokes, poems, and remembering what the user said."""

from random import Random

from stories import BOYS, GIRLS, article, capitalised, invented

GREETING = "Hello! I am Tabloom's small built-in model. What would you like: a story, a fact, a sum or a word game?"
IDENTITY = "I am Tabloom's small built-in model. I run privately in this tab, on your own computer."
CAN_DO = "I can tell short stories, answer simple facts, do small sums, play with words and chat a little."
PRIVATE = "Yes. I run in this tab, on your own computer, and nothing you write leaves it."
SAYINGS = {
    GREETING: ["Hi", "Hello", "Hey", "Hi there!", "Hello there!", "Good morning!", "Good evening!", "Good afternoon!", "Hey there",
               "Greetings!", "Hello, Tabloom!", "Hi, how is it going?", "Hiya", "Howdy", "Good day!", "Yo", "Hi Tabloom"],
    IDENTITY: ["Who are you?", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself.", "Introduce yourself.",
               "Which model are you?", "What model are you?", "Are you ChatGPT?", "Who am I talking to?", "What is this?", "Are you an AI?",
               "Do you have a name?", "How should I call you?", "What kind of model are you?", "Where do you run?", "Where are you running?",
               "What are you called?", "Who is this?", "Are you a chatbot?", "What is Tabloom?", "Say something about yourself."],
    CAN_DO: ["What can you do?", "How can you help me?", "What do you know?", "Help", "What can I ask you?", "What are you good at?",
             "What should I ask you?", "Can you help me?", "What are your skills?", "What can you talk about?", "Show me what you can do.",
             "What do you do?", "I need help.", "What can I do here?", "Give me an idea of what to ask."],
    PRIVATE: ["Are you private?", "Is this private?", "Is my data safe?", "Is this safe?", "Does my text stay on my computer?",
              "Do you keep my data private?", "Are my messages private?", "Do you work offline?", "Can you work offline?",
              "Do you run on my computer?", "Do you run locally?", "Is this chat private?"],
    "No. Nothing you write leaves this tab.": [
        "Do you send my data anywhere?", "Do you store my messages?", "Can other people read this?", "Do you share my data?",
        "Does anyone see what I write?", "Do you send my messages to a server?", "Do you upload what I write?",
        "Can anyone read our chat?", "Do you need the internet?", "Do you use a server?"],
    "No, I am a small computer program that learned to chat.": [
        "Are you human?", "Are you a person?", "Are you a real person?", "Are you alive?", "Do you have a body?", "Are you real?",
        "Do you have feelings?", "Are you a human being?", "Do you eat?", "Do you sleep?",
        "Are you conscious?", "Can you think?", "Do you have a soul?", "Can you feel pain?", "Are you a robot?", "Are you a machine?"],
    "I am very small: about two million numbers. Large models have thousands of times more.": [
        "How big are you?", "How many parameters do you have?", "How large are you?", "What is your size?", "Are you a large model?",
        "Are you a small model?", "How many numbers are in you?", "Are you big?"],
    "I was trained from scratch for Tabloom, on simple texts made by a program.": [
        "Who made you?", "Who built you?", "How were you made?", "How were you trained?", "Who trained you?", "Who created you?",
        "Where do you come from?", "What were you trained on?", "Who is your maker?"],
    "I am fine, thank you! How can I help you?": [
        "How are you?", "How are you doing?", "How do you do?", "How are you today?", "Are you well?", "How do you feel?", "Are you OK?",
        "How is it going?", "What's up?", "How have you been?"],
    "I am a small program and have no favourites. But I like to tell stories!": [
        "What is your favourite colour?", "What's your favorite color?", "What is your favourite food?", "What do you like?",
        "Do you like pizza?", "Do you like music?", "Do you like cats?", "Do you like stories?", "What is your favourite animal?",
        "What is your favourite book?", "What is your favorite story?", "Do you like me?", "Do you like dogs?", "What do you like to do?"],
    "You are welcome!": [
        "Thanks", "Thank you", "Thank you very much!", "Thanks a lot!", "Many thanks!", "Great, thanks!", "Thank you so much!",
        "Cool, thanks", "Thanks for your help!", "That was helpful, thanks.", "Perfect, thank you!", "Thx"],
    "Thank you, that is kind of you!": [
        "Well done!", "Good job!", "You are great!", "I like you.", "You are smart.", "That was good.", "Great answer!", "Very good!",
        "Nice!", "Awesome!", "You are funny.", "Amazing!", "That is correct.", "I love you.", "Wow!", "Cool!"],
    "I am sorry. I am very small and sometimes make mistakes.": [
        "That is wrong.", "You are wrong.", "That is not right.", "Wrong!", "That's not correct.", "You made a mistake.",
        "Are you sure?", "You are stupid.", "I do not like you.", "Bad answer.", "That makes no sense."],
    "Goodbye! Come back any time.": [
        "Bye", "Goodbye", "See you!", "See you later!", "Good night!", "I have to go.", "Bye bye!", "See you tomorrow!", "Take care!",
        "Talk to you later.", "I am leaving now.", "Farewell!"],
    "That is wonderful!": ["I am happy.", "I feel great.", "I am in a good mood.", "I had a good day.", "I am so happy today!",
                           "Today is a good day.", "I feel good."],
    "All right. Just ask when you need me.": ["No", "No, thanks.", "Not now.", "Nothing", "No, thank you.", "Maybe later.", "Never mind."],
    "Please ask me something, and I will try.": ["OK", "Okay", "Yes", "Test", "Hmm", "Go on", "I have a question.", "Can I ask you something?",
                                                 "...", "?", "Sure", "Are you there?", "Talk to me.", "Say something."],
}
SAD = {
    "I am sorry to hear that. Would you like a story to cheer you up?": [
        "I am sad.", "I feel sad.", "I am lonely.", "I had a bad day.", "I feel lonely.", "I am not happy.", "I am crying.", "I feel bad."],
    "Would you like to hear a story?": ["I am bored.", "I can't sleep.", "I am tired.", "I have nothing to do.", "I feel bored.",
                                        "Entertain me.", "I want to sleep."],
}
YES = ["Yes", "Yes, please!", "Yes please", "Sure", "OK", "Of course!", "I would like that.", "Yes, tell me one.", "Please do."]
NO = ["No", "No, thanks.", "Not now.", "No, thank you.", "Maybe later."]
JOKES = [
    "Why did the bicycle fall over? Because it was two-tired!",
    "What do you call a sleeping bull? A bulldozer!",
    "Why did the cookie go to the doctor? Because it felt crumby!",
    "What is brown and sticky? A stick!",
    "Why do bees have sticky hair? Because they use honeycombs!",
    "What do you call a bear without teeth? A gummy bear!",
]
RIDDLES = [
    "What has keys but opens no door? A piano!",
    "What has hands but cannot clap? A clock!",
    "What gets wetter the more it dries? A towel!",
    "What has one eye but cannot see? A needle!",
    "What has a neck but no head? A bottle!",
]
ASK_JOKE = ["Tell me a joke.", "Tell me something funny.", "Do you know a joke?", "Make me laugh.", "Say something funny.", "A joke, please.",
            "Can you tell a joke?", "I want to hear a joke.", "Give me a joke.", "Tell me another joke.", "joke"]
ASK_RIDDLE = ["Tell me a riddle.", "Do you know a riddle?", "Give me a riddle.", "A riddle, please.", "Ask me a riddle.", "I want a riddle.",
              "Can you tell me a riddle?"]
ANOTHER = ["Another one, please.", "Another one", "Tell me another one.", "One more!", "Again, please.", "One more, please."]
POEMS = [
    "O {x}, O {x}, so fair to see,\nwill you come and play with me?\nWe will laugh and we will sing,\nand be happy till the spring.",
    "I saw {a} beneath the sky,\nI said hello, it did not fly.\nIt stayed with me the whole day long,\nand in the night we sang a song.",
    "{A} is small, {a} is fine,\nI am so glad that it is mine.\nThe sun goes down, the moon comes by,\nand stars are shining in the sky.",
]
ASK_POEM = ["Write a poem about {a}.", "Tell me a poem about {a}.", "Write a short poem about {a}.", "Make a poem about {a}.",
            "Can you write a poem about {a}?", "Give me a poem about {a}.", "I would like a poem about {a}.", "A poem about {a}, please."]
POEM_TOPICS = """cat dog bird tree flower rose star cloud river house boat book fish horse fox bear mouse duck frog bee apple hat kite
ball bell lamp garden robot dragon rabbit owl leaf stone lake hill""".split()
NUMBER_NAMES = "Three Four Five".split()
LISTS = {
    "animals": "a cat, a dog, a horse, a fox, a bear", "colours": "red, blue, green, yellow, purple",
    "fruits": "apple, banana, cherry, pear, orange", "vegetables": "carrot, potato, onion, cabbage, spinach",
    "countries": "France, Spain, Italy, Japan, Brazil", "cities": "Paris, London, Rome, Tokyo, Berlin",
    "birds": "an owl, a duck, an eagle, a parrot, a swan", "planets": "Mercury, Venus, Earth, Mars, Jupiter",
    "months": "January, February, March, April, May", "days": "Monday, Tuesday, Wednesday, Thursday, Friday",
    "flowers": "rose, tulip, daisy, lily, sunflower", "trees": "oak, pine, birch, willow, maple",
    "instruments": "piano, violin, guitar, drum, flute", "sports": "football, tennis, running, swimming, cycling",
    "tools": "hammer, saw, drill, axe, rake", "insects": "a bee, an ant, a butterfly, a beetle, a fly",
    "drinks": "water, milk, tea, juice, coffee", "jobs": "baker, doctor, teacher, farmer, pilot",
    "shapes": "circle, triangle, square, pentagon, hexagon", "metals": "gold, silver, iron, copper, tin",
}
ASK_LIST = ["Name {n} {k}.", "List {n} {k}.", "Give me {n} {k}.", "Tell me {n} {k}.", "Can you name {n} {k}?", "What are {n} {k}?",
            "Name {n} different {k}.", "Write down {n} {k}."]
NAMES = sorted(GIRLS + BOYS + """Peter Paul Maria Julia David Laura Simon Kate Alex Robin Chris Jane John Mary Eva Karl Lisa Nick
Olga Pavel Yuki Ahmed Fatima Chen Priya Ravi Ingrid Lars Sofia Marco Elena Ivan George Helen Irene Kevin Linda Martin Nina Otto""".split())
COLOURS = "red blue green yellow purple orange pink black white brown silver gold".split()
PETS = "dog cat rabbit horse parrot hamster turtle mouse bird fish".split()


def joined(items: list[str]) -> str:
    return ", ".join(items[:-1]) + " and " + items[-1]


def list_of(rng: Random) -> tuple[str, str]:
    kind, text = rng.choice(list(LISTS.items()))
    number = rng.choice([3, 3, 3, 4, 5])
    name = NUMBER_NAMES[number - 3]
    question = rng.choice(ASK_LIST).format(n=rng.choice([name.lower(), str(number)]), k=kind)
    return question, f"{name} {kind} are {joined(text.split(', ')[:number])}."


def poem(rng: Random) -> tuple[str, str]:
    topic = rng.choice(POEM_TOPICS)
    if rng.random() < 0.1:
        return rng.choice(["Write a poem.", "Tell me a poem.", "Do you know a poem?", "A poem, please.", "Recite a poem."]), POEMS[0].format(x="star")
    words = {"x": topic, "a": article(topic), "A": capitalised(article(topic))}
    style = POEMS[sum(topic.encode()) % len(POEMS)]
    return rng.choice(ASK_POEM).format(**words), style.format(**words)


def about_user(rng: Random) -> tuple[tuple[str, str], tuple[str, str]]:
    """What the user says about themselves, and later asks back."""
    name = rng.choice(NAMES) if rng.random() < 0.6 else capitalised(invented(rng))
    colour, pet = rng.choice(COLOURS), rng.choice(PETS)
    which = rng.randrange(3)
    if which == 0:
        told = rng.choice(["My name is {}.", "I am {}.", "I'm {}.", "Hi, I am {}.", "Hello, my name is {}.", "Call me {}.", "You can call me {}.",
                           "Hi! My name is {}."]).format(name)
        asked = rng.choice(["What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Do you remember my name?",
                            "Can you tell me my name?"])
        return (told, f"Nice to meet you, {name}!"), (asked, f"Your name is {name}.")
    if which == 1:
        told = rng.choice(["My favourite colour is {}.", "My favorite color is {}.", "I like the colour {} best.", "I love the color {}.",
                           "The colour I like best is {}."]).format(colour)
        asked = rng.choice(["What is my favourite colour?", "What's my favorite color?", "Which colour do I like best?",
                            "Do you remember my favourite colour?", "Which color do I like?"])
        return (told, f"{capitalised(colour)} is a lovely colour!"), (asked, f"Your favourite colour is {colour}.")
    told = rng.choice(["I have a {p} called {n}.", "I have a {p} named {n}.", "My {p} is called {n}.", "The name of my {p} is {n}.",
                       "My {p}'s name is {n}."]).format(p=pet, n=name)
    asked = rng.choice(["What is my {p} called?", "What is the name of my {p}?", "What is my {p}'s name?", "Do you remember the name of my {p}?",
                        "How is my {p} called?"]).format(p=pet)
    return (told, f"{name} is a lovely name for a {pet}!"), (asked, f"Your {pet} is called {name}.")
