// Package sampler is the embedded engine's continuous-batching sampler: one scheduler goroutine
// runs all requests of a model together, and sequences join and leave between decode steps.
//
// New takes all memory. Keys and values have room for Options.MaxTokens tokens, in pages of 16,
// which the scheduler hands out as tokens come. It finds a full page by all tokens from the
// sequence's first to the page's last. So completions of one prompt, prompts with a common prefix
// and the next turn of a conversation share pages; they copy at most the last page, which they fill
// further. Pages without a holder stay until the scheduler needs their memory. It computes a prompt
// in chunks, in the same steps in which other sequences decode.
//
// The scheduler admits requests in order of arrival, once there are pages for their prompt and some
// to spare. It reserves no pages for completions. When pages run out, the youngest sequence gives
// up its pages and is recomputed later.
//
// Randomness comes from a counter-based generator keyed by seed, completion and position, and a row
// has the same bits whatever else is in the step. So a request gets the same tokens and
// log-probabilities for any number of cores, any batch composition and any order of arrival.
//
// Rows that no sequence needs verify drafts: tokens that may come next, from the prompt and from other
// replies to it. The sampler accepts those that it draws itself, so drafts change no bit.
//
// One base model serves any number of LoRA adapters at once. The steps add an adapter's two narrow
// products to the rows that use it, unmerged, like training. Each adapter has its own pages.
//
// A recorded log-probability is that of the sampled token under softmax(logits / temperature) over
// the whole vocabulary, in nats (at temperature 0, under softmax(logits)), as training computes it.
// Truncation (top-k, top-p, min-p), repetition penalty and forbidden stop tokens change which token
// is drawn, but not the record.
package sampler
