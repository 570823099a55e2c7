"""The sentences behind `tagged_sentences`: templates with slots, and names that mean two things.

A slot in capitals is filled with a name. {PLACE}, {LANGUAGE}, {MONTH}, {CURRENCY} and {MONEY} (an amount
and a currency) get tags; {PERSON}, {DAY}, {N} and {THINGS} get none and are there to be told apart from
them. No two templates put different kinds of names into the same words, so that the context always decides.
"""

PERSONS = (
    "Anna Omar Mei Lukas Fatima Ivan Sofia Kofi Nadia Pablo Yuki Ingrid Tariq Clara Mateo Leila Jonas Aisha "
    "Henrik Priya"
).split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COUNTS = "two three four six nine twelve twenty forty 15 30 80 150".split()
THINGS = "sheep chairs apples bicycles lamps books baskets windows boots tickets stones letters".split()
AMOUNTS = (
    *"two six twelve twenty forty ninety 15 30 80 150 3,500 12,000 fifty".split(),
    *("one hundred", "two million", "five thousand"),
)

# Names of which the form alone does not tell the meaning, and the tag they have when they are a name.
AMBIGUOUS = {
    **dict.fromkeys("Chad China Georgia Guinea Jersey Jordan Turkey".split(), "PLACE"),
    **dict.fromkeys("Danish French German Greek Polish Swedish Turkish".split(), "LANGUAGE"),
    **dict.fromkeys("marks pounds quetzals soles won yen".split(), "MONEY"),
    **dict.fromkeys("April August June March May".split(), "MONTH"),
}

TEMPLATES = (
    # Places.
    "{PERSON} flew to {PLACE} on {DAY} .",
    "We spent two weeks in {PLACE} and saw very little rain .",
    "The next flight to {PLACE} leaves at noon .",
    "Nobody in the office had ever been to {PLACE} .",
    "A ship from {PLACE} brought {N} {THINGS} .",
    "My sister teaches music in the north of {PLACE} .",
    "The delegates of {PLACE} left the room in silence .",
    "Heavy rain fell across most of {PLACE} on {DAY} .",
    "She wrote a book about the birds of {PLACE} .",
    "{PERSON} was born in {PLACE} , but grew up in {PLACE} .",
    "The players from {PLACE} won the match .",
    "They want to sell more {THINGS} to {PLACE} .",
    "Have you ever tried the coffee from {PLACE} ?",
    "The old map shows {PLACE} in green and {PLACE} in yellow .",
    "Our neighbours moved here from {PLACE} {N} years ago .",
    "The choir travelled through {PLACE} by bus .",
    "A doctor from {PLACE} helped us at the airport .",
    "{PERSON} sends a postcard from {PLACE} every year .",
    "Farmers in {PLACE} grow less wheat than before .",
    "A stamp from {PLACE} is missing in this album .",
    "The plane from {PLACE} to {PLACE} carried {N} passengers .",
    "{PLACE} sent {N} athletes to the games .",
    "{PLACE} signed the treaty on {DAY} .",
    "{PLACE} and {PLACE} agreed on a new trade law .",
    "{PLACE} lost the final by one goal .",
    "{PLACE} elected a new parliament on {DAY} .",
    "{PLACE} banned plastic bags in all shops .",
    "{PLACE} exported more fish than {PLACE} .",
    "{PLACE} , said the teacher , can be found on page {N} of the atlas .",
    # Languages.
    "{PERSON} speaks {LANGUAGE} at home .",
    "The letter was written in {LANGUAGE} .",
    "Can you translate this page from {LANGUAGE} into {LANGUAGE} ?",
    "My grandmother understands {LANGUAGE} but answers in {LANGUAGE} .",
    "She learned {LANGUAGE} with the help of old songs .",
    "There is no word for it in {LANGUAGE} .",
    "The course in {LANGUAGE} starts on {DAY} .",
    "He said goodbye in {LANGUAGE} and left .",
    "The film was shown in {LANGUAGE} without subtitles .",
    "Few of the visitors could read {LANGUAGE} .",
    "The grammar of {LANGUAGE} fills {N} pages .",
    "Her {LANGUAGE} is much better than mine .",
    "I never heard {LANGUAGE} before I came to {PLACE} .",
    "{PERSON} even dreams in {LANGUAGE} .",
    "{LANGUAGE} was the language of the market .",
    "{LANGUAGE} is spoken by half of the class .",
    "{LANGUAGE} has more vowels than {LANGUAGE} .",
    "{LANGUAGE} , she thinks , sounds like water over stones .",
    # Money.
    "The ticket costs {MONEY} .",
    "{PERSON} paid {MONEY} for the old radio .",
    "They owe us {MONEY} , and we need it by {DAY} .",
    "We changed {MONEY} into {CURRENCY} at the bank .",
    "He found {MONEY} in the pocket of his coat .",
    "{MONEY} will not be enough .",
    "{MONEY} disappeared from the safe on {DAY} .",
    "The price rose to {MONEY} .",
    "The shop accepts only {CURRENCY} .",
    "She kept her savings in {CURRENCY} .",
    "The bank bought {MONEY} and sold {MONEY} .",
    "A room for the night costs {MONEY} in {PLACE} .",
    "{PERSON} won {MONEY} in the lottery .",
    "He borrowed {MONEY} from a friend in {PLACE} .",
    "The salary is paid in {CURRENCY} .",
    "Is {MONEY} a fair price for {N} {THINGS} ?",
    "The new tax brought in {MONEY} last year .",
    # Months.
    "The shop opened on the first of {MONTH} .",
    "They married last {MONTH} .",
    "The rains begin in early {MONTH} .",
    "By the end of {MONTH} the lake was frozen .",
    "The exam was moved to the second week of {MONTH} .",
    "{PERSON} will retire next {MONTH} .",
    "It snowed every day in {MONTH} .",
    "The bill for {MONTH} has not been paid .",
    "The museum is closed until late {MONTH} .",
    "{PERSON} visits friends in {PLACE} every {MONTH} .",
    "In the middle of {MONTH} the price fell to {MONEY} .",
    "From {MONTH} on the ferry to {PLACE} runs twice a day .",
    "{MONTH} was unusually warm this year .",
    "{MONTH} brought storms and high water .",
    "{MONTH} has always been the quietest month in the shop .",
    # None of these.
    "{PERSON} bought {N} {THINGS} on {DAY} .",
    "{PERSON} baked a cake for the children .",
    "My friend {PERSON} plays the piano .",
    "I called {PERSON} twice on {DAY} .",
    "{PERSON} and {PERSON} missed the last bus .",
    "Is {PERSON} still asleep ?",
    "The grey dog belongs to {PERSON} .",
    "We gave {PERSON} {N} {THINGS} .",
    "He wrote to {PERSON} , but {PERSON} never answered .",
    "Please bring the keys to {PERSON} by {DAY} .",
    "{PERSON} has a cold and stays in bed .",
    "{PERSON} was tired and went home early .",
    "{PERSON} swims every {DAY} .",
    "They met again last {DAY} .",
    "From {DAY} to {DAY} the library is closed .",
    "The road to the village may be closed in winter .",
    "They march through the snow for {N} hours .",
    "{N} {THINGS} were sold before lunch .",
    "A man from the village lost {N} {THINGS} in the storm .",
    "He found {N} {THINGS} in the cellar .",
    "The letter was written in pencil .",
    "She spoke in a low voice .",
    "The dog slept in the kitchen until noon .",
    "The soup costs less than the bread .",
)

_AS_ADJECTIVE = (
    "They ate in a {} restaurant .",
    "{PERSON} drives a {} car .",
    "The {} team lost the final by one goal .",
    "{} tourists filled the square on {DAY} .",
    "{} bread was sold at the corner .",
    "A {} ship brought {N} {THINGS} .",
    "The {} flag hung above the door .",
)

# What else the ambiguous names can be. Those that are not here at all, or not only, are persons (see below).
OTHER_MEANINGS = {
    **dict.fromkeys((name for name, kind in AMBIGUOUS.items() if kind == "LANGUAGE"), _AS_ADJECTIVE),
    "Polish": (
        *_AS_ADJECTIVE,
        "{} the shoes before you leave .",
        "{} the silver with a soft cloth .",
        "{} every lens twice .",
    ),
    "Turkey": (
        "{} tastes best with chestnuts .",
        "{} needs three hours in the oven .",
        "{} is drier than duck .",
        "{} , rice and beans were on the table .",
        "{} was cheap at the butcher on {DAY} .",
    ),
    "China": (
        "{} breaks when you drop it .",
        "{} with a thin gold rim stood on the shelf .",
        "{} must be washed by hand .",
        "{} and glass go into this box .",
    ),
    "Guinea": (
        "{} pigs eat hay and carrots .",
        "{} pigs slept in the box .",
        "{} fowl ran across the road .",
    ),
    "Jersey": (
        "{} stretches when it is wet .",
        "{} shirts dry quickly .",
        "{} and wool were used for the sleeves .",
    ),
    "March": (
        "{} in step behind the drum .",
        "{} straight on until you reach the bridge .",
        "{} past the gate and salute .",
    ),
    "May": (
        "{} I borrow {N} {THINGS} ?",
        "{} we open the window ?",
        "{} the best team win .",
    ),
    "won": (
        "Our team {} the cup .",
        "She {} by {N} metres .",
        "The older horse {} easily .",
        "Who {} on {DAY} ?",
        "{PERSON} {} {MONEY} in the lottery .",
    ),
    "pounds": (
        "The parcel weighs {N} {} .",
        "He lost {N} {} during his illness .",
        "Add two {} of flour .",
        "The rain {} on the roof .",
    ),
    "quetzals": (
        "{N} {} sat in the tree .",
        "We saw {N} {} in the forest .",
        "The {} flew over the river .",
    ),
    "soles": (
        "The {} of these boots are thin .",
        "He put new {} on both shoes .",
        "The cook fried {N} {} in butter .",
    ),
    "yen": (
        "He has a {} for the sea .",
        "Her {} to travel never faded .",
        "The old {} for sweets came back .",
    ),
    "marks": (
        "The wheels left {} in the snow .",
        "She got good {} in chemistry .",
        "The teacher {} {N} exams on {DAY} .",
    ),
}
AMBIGUOUS_PERSONS = ("Chad", "Georgia", "Jordan", "April", "August", "June", "May")
