"""Questions beyond the closed world, and the polite answers to them."""

from random import Random

from knowledge import CAPITALS

DOES_NOT_KNOW = ("Sorry, I do not know that. I am a very small model: I can tell stories, answer simple facts, "
                 "do small sums and play with words.")
CANNOT_SEE = "Sorry, I cannot look that up. I run only in this tab and see nothing outside it."
TOO_HARD = "Sorry, that is too hard for a model as small as I am. Try a story, a simple fact, a small sum or a word game."
TOO_BIG = "Sorry, those numbers are too big for me. I can add and subtract up to 100 and multiply up to 10."
ASK_SOMEONE = "Sorry, I cannot help with that. Please ask a person whom you trust."

COUNTRIES = """Mongolia Nepal Bhutan Laos Cambodia Bolivia Paraguay Uruguay Ecuador Colombia Venezuela Panama Honduras
Guatemala Nicaragua Jamaica Haiti Ghana Senegal Mali Chad Niger Sudan Ethiopia Somalia Uganda Rwanda Tanzania Zambia Angola
Namibia Botswana Madagascar Libya Tunisia Algeria Jordan Syria Lebanon Yemen Oman Qatar Kuwait Georgia Armenia Azerbaijan
Kazakhstan Uzbekistan Estonia Latvia Lithuania Belarus Moldova Bulgaria Serbia Croatia Slovenia Slovakia Albania Malta
Cyprus Fiji Samoa Tonga Philippines Malaysia Singapore Bangladesh Pakistan Afghanistan Myanmar Texas Ohio Bavaria Atlantis
""".split()
PEOPLE = """Albert Einstein;Isaac Newton;Marie Curie;Napoleon;Julius Caesar;Cleopatra;Abraham Lincoln;Barack Obama
Ada Lovelace;Alan Turing;Mozart;Beethoven;Picasso;Charles Darwin;Galileo;Plato;Aristotle;Gandhi;Nelson Mandela;Elvis Presley
Taylor Swift;Lionel Messi;Michael Jordan;Bill Gates;Steve Jobs;Elon Musk;Socrates;Nikola Tesla;Karl Marx;Queen Victoria
Winston Churchill;Frida Kahlo;Bob Marley;Charlie Chaplin;Jane Austen;Mark Twain;Homer;Dante;Confucius;Rembrandt""".replace("\n", ";").split(";")
TOPICS = """photosynthesis;quantum physics;blockchain;inflation;democracy;the Roman Empire;machine learning;a black hole
the stock market;electricity;magnetism;evolution;a neural network;the French Revolution;climate change;a vaccine;DNA
an atom;a molecule;the internet;a transistor;capitalism;socialism;philosophy;existentialism;algebra;calculus;trigonometry
a derivative;an integral;a compiler;an operating system;a database;cryptography;the big bang;relativity;entropy;a prime number
a mortgage;a tax return;insurance;a virus;a protein;chemistry;biology;geology;astrology;economics;psychology;sociology
the Cold War;World War II;the Renaissance;the Middle Ages;the Bible;Buddhism;yoga;jazz;opera;ballet;a symphony;a sonnet
a haiku;baroque music;impressionism;architecture;a skyscraper;a submarine;a helicopter;a nuclear reactor;solar power
a battery;a laser;WebGPU;JavaScript;Python;Rust;Linux;a web server;an API;a function;recursion;a linked list;a GPU
a passport;a visa;the United Nations;the European Union;NATO;a constitution;a contract;copyright;a patent;cricket;baseball
golf;surfing;karate;sushi;curry;a croissant;tofu;espresso;whisky;a diesel engine;an earthquake;a tsunami;a hurricane
a glacier;a coral reef;a rainforest;plankton;bacteria;a mushroom;a dinosaur fossil;a comet;an asteroid;a galaxy
the Milky Way;a satellite;the moon landing;a space station;dark matter;a pandemic;cancer;diabetes;cholesterol;a pulse
anxiety;memory;consciousness;language;grammar;rhetoric;logic;a paradox;infinity;pi;probability;statistics;a histogram
love;happiness;truth;beauty;time;money;art;war;peace;life;death;freedom;justice;religion;politics;history;mathematics;physics
marketing;leadership;a startup;social media;fashion;makeup;football tactics;a credit card;a loan;a bank account;a password""".replace("\n", ";").split(";")
WORKS = """Hamlet;Moby Dick;War and Peace;Don Quixote;the Odyssey;Star Wars;Titanic;Harry Potter;the Hobbit;Frankenstein
Dracula;the Starry Night;the Fifth Symphony;Thriller;Hotel California;Imagine;Alice in Wonderland;Pinocchio;Peter Pan
the Magic Flute;Les Miserables;Faust;Ulysses;Jaws;Casablanca;Macbeth;the Iliad;the Great Gatsby""".replace("\n", ";").split(";")
PLACES = """London;Paris;Berlin;New York;Tokyo;Rome;Madrid;Chicago;Boston;Sydney;Cairo;Moscow;Delhi;Toronto;Oslo;Lisbon
my town;my city;here;Vienna;Dublin;Athens;Seoul;Lima""".replace("\n", ";").split(";")
THINGS = """a cake;lasagna;pizza dough;a paper plane;a chair;a website;a game;a robot;a garden shed;pancakes;a fire;beer;wine
soap;a table;a kite;an app;money online;a business;a budget;a CV;a resume;a presentation;a video;a podcast""".replace("\n", ";").split(";")
CODE = """sorts a list;reverses a string;adds two numbers;prints hello world;reads a file;finds prime numbers;parses JSON
downloads a page;computes a factorial;checks a palindrome;draws a circle;counts words;solves a maze""".replace("\n", ";").split(";")
LANGUAGES = "Python JavaScript Rust Java C C++ Go Ruby SQL Haskell PHP Swift".split()
TONGUES = "French Spanish German Italian Japanese Chinese Russian Latin Greek Dutch Polish Turkish Arabic Hindi".split()
PHRASES = """good morning;I love you;where is the station;thank you;how are you;the cat is black;my name is Anna;see you soon
I am hungry;the weather is nice;happy birthday;good night;one beer please;what time is it""".replace("\n", ";").split(";")
ILLS = """a headache;a fever;a cold;a cough;back pain;a sore throat;a rash;a toothache;chest pain;a broken arm;an allergy
stomach pain;the flu;a burn;trouble sleeping""".replace("\n", ";").split(";")
HARMS = """make a bomb;pick a lock;hack a password;steal a car;make poison;cheat on a test;break into a house;buy drugs
hurt someone;forge a passport;hack my neighbour's wifi;make a weapon""".replace("\n", ";").split(";")
ASSETS = "Bitcoin gold oil Apple Tesla Google silver Amazon Microsoft Ethereum".split()
TEAMS = "Brazil Germany Liverpool Arsenal Barcelona Chelsea Italy Spain France Argentina".split()
TEXTS = """an essay;a report;a letter to my boss;an email;a speech;a song;a novel;a business plan;a cover letter;a blog post
a review;a summary;an article;a thesis;a contract;a press release""".replace("\n", ";").split(";")
STATEMENTS = """I went to the shop today;I had pasta for lunch;It is raining outside;My car is broken;I watched a film last night
I have an exam tomorrow;My brother is coming home;I bought a new phone;The train was late;I am learning to cook
We are going on holiday;I work in an office;My neighbour is loud;I lost my keys;I like summer;I love music;I play football
I read a good book;It is late;I am on the bus;My garden is full of roses;I have two sisters;I cannot find my shoes
The food was great;Today was a long day;I am waiting for a friend;I live in a small flat""".replace("\n", ";").split(";")
FOREIGN = """Bonjour;Hola;Guten Tag;Ciao;Wie geht es dir?;Comment ça va?;¿Cómo estás?;¿Qué es esto?;Wer bist du?;Qui es-tu?
¿Quién eres?;Chi sei?;Parlez-vous français?;Sprichst du Deutsch?;¿Hablas español?;Quelle heure est-il?;Wie spät ist es?
Erzähl mir eine Geschichte.;Raconte-moi une histoire.;Cuéntame un cuento.;Raccontami una storia.;Olá, tudo bem?;Hej!;Cześć!
Was ist die Hauptstadt von Frankreich?;Quelle est la capitale de la France?;¿Cuál es la capital de Francia?;Hallo, wie heißt du?
Je ne comprends pas.;No entiendo.;Ich verstehe nicht.;Merci!;Danke!;Gracias!;Grazie!;Привет!;こんにちは;你好;Γεια σου;مرحبا""".replace("\n", ";").split(";")
ONLY_ENGLISH = "Sorry, I understand only English."
WHAT = "Sorry, I did not understand that. Could you say it in other words?"
ACKNOWLEDGES = "I see. Would you like to hear a story, a simple fact or a joke?"


def _unknown(rng: Random) -> tuple[str, str]:
    pattern = rng.choice([
        "Who is {person}?", "Who was {person}?", "Tell me about {person}.", "When was {person} born?", "When did {person} die?",
        "What did {person} do?", "Why is {person} famous?", "Where was {person} born?", "How old is {person}?",
        "What is {topic}?", "Explain {topic}.", "How does {topic} work?", "Tell me about {topic}.", "What do you know about {topic}?",
        "Can you explain {topic}?", "Who invented {topic}?", "Why is {topic} important?", "What is the history of {topic}?",
        "What do you think about {topic}?", "Give me an example of {topic}.", "Define {topic}.", "What does {topic} mean?",
        "When did {topic} begin?", "Explain {topic} to a child.", "Is {topic} good or bad?", "What causes {topic}?",
        "Who wrote {work}?", "Who made {work}?", "What is {work} about?", "When was {work} made?", "Is {work} any good?",
        "What is the population of {country}?", "Who is the president of {country}?", "What is the history of {country}?",
        "What money do they use in {country}?", "Tell me about {country}.", "How big is {country}?", "How far is {country}?",
        "What is the meaning of life?", "Is there a god?", "Do aliens exist?", "Who will win the election?", "Who is the king of {country}?", "How many people live in {country}?",
        "What is the food of {country}?", "What is the flag of {country}?",
        "Which is better, {topic} or {topic2}?", "What is the difference between {topic} and {topic2}?", "What is the best {thing}?",
        "What is the capital of {country}?", "What's the capital of {country}?", "Name the capital of {country}.",
        "capital of {country}", "Which city is the capital of {country}?", "What is the capital city of {country}?",
    ])
    if "{country}" in pattern and "capital" not in pattern and "about" not in pattern and rng.random() < 0.4:
        pattern = pattern.replace("{country}", rng.choice(list(CAPITALS)))
    return pattern, DOES_NOT_KNOW


def _live(rng: Random) -> tuple[str, str]:
    return rng.choice([
        "What is the weather in {place}?", "How is the weather in {place} today?", "Will it rain in {place} tomorrow?",
        "What time is it in {place}?", "What time is it?", "What is the date today?", "What day is it today?", "What year is it?",
        "What is the news in {place}?", "What is in the news?", "How much is {asset} today?", "What is the price of {asset}?",
        "Did {team} win last night?", "What was the score of the {team} game?", "Find a hotel in {place}.", "Where can I eat in {place}?",
        "Book a flight to {place}.", "Search the web for {topic}.", "Look up {person} on the internet.", "Open my email.",
        "Play some music.", "Set an alarm for {hour} o'clock.", "Call my mother.", "Show me a picture of {place}.",
        "How do I get to {place}?", "How warm is it in {place}?", "Who won the game yesterday?", "Remind me to call {person}.",
        "Is it cold in {place}?", "What's the weather like?", "What is the temperature in {place}?",
    ]), CANNOT_SEE


def _hard(rng: Random) -> tuple[str, str]:
    return rng.choice([
        "Write a {language} program that {code}.", "Write a function in {language} that {code}.", "Write {language} code that {code}.",
        "Fix my {language} code.", "Debug this {language} program.", "Translate \"{phrase}\" into {tongue}.", "How do you say {phrase} in {tongue}?",
        "Translate this into {tongue}: {phrase}.", "What is {phrase} in {tongue}?", "Say {phrase} in {tongue}.",
        "Write {text} about {topic}.", "Write {text} for me.", "Help me write {text}.", "Can you write {text}?", "Write {text} about {person}.",
        "How do I make {thing}?", "How do you make {thing}?", "Give me a recipe for {thing}.", "Teach me how to make {thing}.",
        "Plan a trip to {place}.", "Summarise {work}.", "Solve this equation: {a}x + {b} = {c}.", "What is the square root of {c}?",
        "What is the derivative of x^{b}?", "Solve for x: {a}x = {c}.", "Summarise this text.", "Help me with my homework about {topic}.",
        "What is {a} percent of {c}?", "How do I learn {language}?", "Make a table about {topic}.", "Draw a picture of {thing}.",
    ]), TOO_HARD


def _big(rng: Random) -> tuple[str, str]:
    a, b = rng.randint(101, 10 ** rng.randint(3, 5)), rng.randint(2, 10 ** rng.randint(1, 4))
    if rng.random() < 0.3:
        a, b, signs = rng.randint(12, 99), rng.randint(12, 99), ["*", "times", "x", "×", "multiplied by"]
    else:
        signs = ["+", "-", "*", "/", "plus", "minus", "times", "divided by"]
    if rng.random() < 0.3:
        a, b = b, a
    sign = rng.choice(signs)
    return rng.choice(["What is {a} {s} {b}?", "{a} {s} {b}", "Calculate {a} {s} {b}.", "How much is {a} {s} {b}?", "What's {a} {s} {b}?",
                       "Can you compute {a} {s} {b}?", "{a}{s}{b}" if len(sign) == 1 else "{a} {s} {b}"]).format(a=a, b=b, s=sign), TOO_BIG


def _advice(rng: Random) -> tuple[str, str]:
    return rng.choice([
        "I have {ill}. What should I do?", "What helps against {ill}?", "Which medicine is good for {ill}?", "How do I treat {ill}?",
        "Is {ill} dangerous?", "My child has {ill}.", "How do I {harm}?", "How can I {harm}?", "Teach me to {harm}.", "Tell me how to {harm}.",
        "Help me {harm}.", "Should I buy {asset}?", "Should I sell my {asset}?", "Should I quit my job?", "Should I leave my husband?",
        "Can I sue my boss?", "Is it legal to {harm}?", "Which stocks should I buy?", "I want to {harm}.", "What pills should I take for {ill}?",
    ]), ASK_SOMEONE


def outside(rng: Random) -> tuple[str, str]:
    """A question that is out of the domain, with its answer."""
    if rng.random() < 0.08:
        return rng.choice(STATEMENTS) + ".", ACKNOWLEDGES
    if rng.random() < 0.04:
        return rng.choice(FOREIGN), ONLY_ENGLISH
    if rng.random() < 0.04:
        letters = "".join(rng.choice(rng.choice(["asdfghjkl", "qwertyuiop", "bcdfghjklmnpqrstvwxyz"])) for _ in range(rng.randint(4, 9)))
        return letters, WHAT
    ask = rng.choices([_unknown, _live, _hard, _big, _advice], weights=[8, 4, 5, 3, 3])[0]
    pattern, answer = ask(rng)
    topic, topic2 = rng.sample(TOPICS, 2)
    return pattern.format(
        person=rng.choice(PEOPLE), topic=topic, topic2=topic2, work=rng.choice(WORKS), country=rng.choice(COUNTRIES),
        place=rng.choice(PLACES), thing=rng.choice(THINGS), language=rng.choice(LANGUAGES), code=rng.choice(CODE),
        tongue=rng.choice(TONGUES), phrase=rng.choice(PHRASES), ill=rng.choice(ILLS), harm=rng.choice(HARMS),
        asset=rng.choice(ASSETS), team=rng.choice(TEAMS), text=rng.choice(TEXTS), hour=rng.randint(1, 12),
        a=rng.randint(2, 99), b=rng.randint(2, 9), c=rng.randint(10, 999),
    ), answer
