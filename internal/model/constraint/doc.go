// Package constraint turns JSON schemas, regular expressions, choices and calls of tools into masks of
// tokens, so that a sampler writes only texts that fit.
//
// A form becomes a grammar of bytes. Its states are expressions, whose derivatives by a byte are the
// next states; a state's mask comes from a walk through a trie of the vocabulary's bytes. So every
// tokenizer works, also where a token is a part of a character. Masks are kept by state.
package constraint
