// Package sampler is the embedded engine's continuous-batching sampler: one scheduler goroutine runs all requests of a
// model at once, sequences joining and leaving between decode steps.
//
// Memory is planned before the first request. Keys and values live in Options.MaxTokens places, in pages of 16 tokens
// that are handed out as tokens come. A full page can be found by the tokens from its sequence's first to its own last:
// completions of one prompt, prompts that begin alike and the next turn of a conversation hold the same pages, and copy
// at most the last one, which they go on to fill. Pages that nobody holds stay until their memory is wanted. A prompt is
// computed in chunks beside the decoding of others.
//
// Requests are admitted in order of arrival, when there are pages for their prompt and some to spare; how much they will
// write is not reserved. When pages run out the youngest sequence gives up its own and is computed again later.
//
// Randomness is a counter-based generator keyed by seed, completion and position, and a row of a step has the same bits
// whatever else is in the step. So a request gets the same tokens and log-probabilities for any number of cores, any
// company in the batch and any order of arrival.
//
// One base serves any number of LoRA adapters at once: rows of a step that use one get its two narrow products added, unmerged, as training
// adds them. Each adapter has pages of its own.
//
// A recorded log-probability is that of the sampled token under softmax(logits / temperature) over the whole
// vocabulary, in nats (at temperature 0, under softmax(logits)): what training computes. Truncation (top-k, top-p,
// min-p), repetition penalty and forbidden stop tokens change which token is drawn and leave the record alone.
package sampler
