"""The scale of a model's cosines: the cosine of a question and an unrelated passage.

Every model has a scale of its own: 0.4 means "similar" for one model, and is the cosine of any two
texts for another. The texts here are fixed and unrelated, so the baseline depends on the model
only, not on the notes. If it were measured on the notes, every passage of a workspace about one
subject would look unrelated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memwell.embed.base import Embedder

QUESTIONS = (
    "How do I bleed the radiators?",
    "Which port does the staging database use?",
    "when is mum's birthday",
    "Why did we decide against a message broker?",
    "vaccination of the dog",
    "What does the customer want changed in the contract?",
    "recipe for lentil soup",
    "how to undo the last commit",
    "Who has the spare key to the bicycle shed?",
    "side effects of the blood pressure tablets",
    "What did Anna say about the school play?",
    "function that parses a date with a time zone",
    "Where did the treaty that ended the war get signed?",
    "lift coefficient of a thin wing at low speed",
    "Does the insurance cover water damage?",
    "how often do tomatoes need feeding",
)
PASSAGES = (
    "The guitar needs new strings before the concert; the shop on the corner has the light set.",
    "Minutes: the committee will meet every second Thursday. They go out the day after.",
    "Flight to Lisbon leaves at 6:40, so be at the airport by five. Seats are in row 14.",
    "The glacier lost nine metres of ice over the decade, most of it in three hot summers.",
    "Use a ladder with rubber feet for the gutters, and never lean it against the glass.",
    "He finished the marathon in just under four hours and wants to try the mountain race.",
    "The painting shows a harbour at dusk. It was restored in the nineties and hangs upstairs.",
    "Tadpoles live in still water and shade; by July most of them have grown legs.",
    "Chapter three introduces the lighthouse keeper, whose letters hold the novel together.",
    "Interest is charged monthly. Paying early saves the rest of it, apart from a small fee.",
    "The new tram line opens in spring with six stops between the stadium and the old market.",
    "Her accent is from the coast; she grew up in a fishing village with her grandparents.",
    "Hold the shutter half down to focus, then move the frame. Film is ISO 400.",
    "Battery life fell to four hours after the update. A reset of the power settings helped.",
    "Wheat prices rose after the drought, and bakers passed the increase on within weeks.",
    "def area(width, height): return width * height",
    "for row in rows: totals[row.colour] += row.weight",
    "Wow, that sounds amazing! I have never been on a horse, was it scary at first?",
    "Thanks! We stayed up half the night playing cards and laughing about old times.",
    "Haha, my sister said the same. Anyway, the beach was packed and the water freezing.",
    "- [ ] ring the printer about the posters\n- [x] order envelopes",
    "Choir practice is moved to the small hall while the organ is being tuned.",
    "Migrating cranes were counted at dawn from two towers; the flock was smaller than last year.",
    "The study found no difference in sleep between the group that walked and the one that ran.",
    "Electrons in the outer shell decide how an element bonds; noble gases hardly bond at all.",
    "Parliament was dissolved in autumn and the coalition fell apart over the railway bill.",
    "The goalkeeper was sent off before half time, yet the visitors could not score.",
    "Deploys are frozen from 20 December until the first working day of January.",
    "Pronounce the r softly and stress the second syllable: that is how locals say it.",
    "Sand with the grain, wipe with a damp cloth, then two thin coats of oil a day apart.",
    "Rents in the new quarter are a third higher, and most of the flats have no lift.",
    "She chose the blue fabric for the curtains since it hides the marks of small hands.",
)


def unrelated_cosines(embedder: Embedder) -> tuple[float, float] | None:
    """Return mean and deviation of the cosine of a question and an unrelated passage."""
    import numpy as np

    passages = [rows[0] for rows in embedder.embed_documents(PASSAGES) if len(rows)]
    questions = [rows[0] for rows in map(embedder.embed_query, QUESTIONS) if len(rows)]
    if not passages or not questions:
        return None
    cosines = np.array(questions) @ np.array(passages).T
    mean, deviation = float(cosines.mean()), float(cosines.std())
    return (mean, deviation) if deviation > 0 else None
