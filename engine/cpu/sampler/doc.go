// Package sampler is the embedded engine's continuous-batching sampler: one scheduler goroutine runs all requests of a
// model at once, sequences joining and leaving between decode steps.
//
// Memory is planned before the first request. Keys and values live in one cache of Options.MaxTokens rows; a request is
// admitted, in order of arrival, when its prompt and the longest completion it may write fit, and waits otherwise. A
// prompt is computed once, in chunks beside the decoding of others, and shared by every completion of it; prompts stay
// for a while after their last use, and a prompt that begins like one of them copies what they have in common.
//
// Randomness is a counter-based generator keyed by seed, completion and position, and a row of a step has the same bits
// whatever else is in the step. So a request gets the same tokens and log-probabilities for any number of cores, any
// company in the batch and any order of arrival.
//
// A recorded log-probability is that of the sampled token under softmax(logits / temperature) over the whole
// vocabulary, in nats (at temperature 0, under softmax(logits)): what training computes. Truncation (top-k, top-p,
// min-p), repetition penalty and forbidden stop tokens change which token is drawn and leave the record alone.
package sampler
