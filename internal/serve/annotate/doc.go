// Package annotate serves a page on which people compare, rate and edit two answers to a prompt. It
// turns their decisions into training data.
//
// [Read] takes pairs of answers from a dataset or from the experiences of a run. A [Book] hands
// them out to annotators and writes every decision to an append-only log before it acknowledges it.
// [Book.Write] writes rows for the algorithms dpo, kto and sft. [Server] serves the page.
package annotate
