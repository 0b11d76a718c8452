// Package annotate has people compare two answers to a prompt, rate and edit them, in a page that it serves, and makes training data of what they
// decide.
//
// [Read] takes pairs of answers from a dataset or from the experiences of a run. A [Book] hands them out to annotators and keeps every decision in an
// append-only log before it is acknowledged. [Book.Write] makes rows of them that algorithms dpo, kto and sft train on. [Server] is the page.
package annotate
