"""Records text similarities of rapidfuzz, NLTK and rouge-score: similarity.py > similarity.json

METEOR is NLTK's with neither stems nor synonyms.
"""

import json
import random
import re

from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu
from nltk.translate.meteor_score import single_meteor_score
from rapidfuzz import fuzz
from rouge_score import rouge_scorer


class Same:
    def stem(self, word):
        return word


class NoSynonyms:
    def synsets(self, word):
        return []


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rougeL"])


def measure(text, reference):
    a, b = words(text), words(reference)
    rouge = scorer.score(reference, text)
    return {
        "fuzzy_match": fuzz.ratio(text, reference) / 100,
        "bleu": sentence_bleu([b], a, smoothing_function=SmoothingFunction().method1),
        "gleu": sentence_gleu([b], a) if a or b else 0.0,
        "meteor": single_meteor_score(b, a, stemmer=Same(), wordnet=NoSynonyms()) if a and b else 0.0,
        "rouge_l": rouge["rougeL"].fmeasure,
        **{"rouge_%d" % n: rouge["rouge%d" % n].fmeasure for n in range(1, 6)},
    }


pairs = [
    ("the cat sat on the mat", "the cat sat on the mat"), ("the cat", "the cat sat on the mat"), ("", "the cat"), ("", ""), ("a", "b"),
    ("On Friday, at noon.", "at noon on Friday"), ("the the the the", "the cat the dog"), ("x y z", "z y x"), ("3.14", "3.141"),
]
rng = random.Random(1)
some = "the a cat dog sat ran on over mat rug and then slept well".split()
for _ in range(60):
    pairs.append(tuple(" ".join(rng.choice(some) for _ in range(rng.randint(1, 12))) for _ in "ab"))
print("[")
rows = [json.dumps([text, reference, measure(text, reference)]) for text, reference in pairs]
print(",\n".join(rows))
print("]")
