package renderer

import (
	"fmt"
	"slices"
	"sort"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// place maps byte ranges of text to ranges of its tokens, as transformers does: from the token with
// the first byte to the token with the last byte.
func place(tok *tokenizer.Tokenizer, text string, tokens []int32, spans []span) ([]span, error) {
	ends, exact := tokenEnds(tok, text, tokens)
	var places []span
	for _, s := range spans {
		if s.begin == s.end {
			continue
		}
		if exact {
			// from the first token that ends after the first byte to the first that ends at or
			// after the last
			begin := sort.SearchInts(ends, s.begin+1)
			for begin > 0 && ends[begin-1] == s.begin && (begin == 1 || ends[begin-2] == s.begin) {
				begin-- // a token with only the first bytes of the first character
			}
			end := sort.SearchInts(ends, s.end)
			places = append(places, span{begin, min(end+1, len(tokens))})
			continue
		}
		begin, err := boundary(tok, text, tokens, s.begin)
		if err != nil {
			return nil, err
		}
		end, err := boundary(tok, text, tokens, s.end)
		if err != nil {
			return nil, err
		}
		places = append(places, span{begin, end})
	}
	return places, nil
}

// tokenEnds returns the byte of text at which each token ends. exact is false if the tokens do not
// spell the text, for example because the tokenizer normalises it. A token that ends inside a
// character counts as ending before it.
func tokenEnds(tok *tokenizer.Tokenizer, text string, tokens []int32) (ends []int, exact bool) {
	stream := tok.Stream(false)
	ends = make([]int, len(tokens))
	at := 0
	follow := func(piece string) bool {
		if len(text)-at < len(piece) || text[at:at+len(piece)] != piece {
			return false
		}
		at += len(piece)
		return true
	}
	for i, id := range tokens {
		if !follow(stream.Push(id)) {
			return nil, false
		}
		ends[i] = at
	}
	if !follow(stream.Flush()) || at != len(text) {
		return nil, false
	}
	if len(ends) > 0 {
		ends[len(ends)-1] = at
	}
	return ends, true
}

// boundary returns the number of tokens of the first n bytes of text. It is an error if cutting the
// text there changes a token.
func boundary(tok *tokenizer.Tokenizer, text string, tokens []int32, n int) (int, error) {
	head := tok.Encode(text[:n], false)
	if len(head) > len(tokens) || !slices.Equal(head, tokens[:len(head)]) {
		return 0, fmt.Errorf("renderer: a turn of the assistant begins or ends inside a token, at byte %d of the rendered "+
			"chat, so it has no mask", n)
	}
	return len(head), nil
}
