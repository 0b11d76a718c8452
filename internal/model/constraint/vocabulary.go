package constraint

import (
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// special begins the text of a special token in the trie. UTF-8 has no such byte, so a grammar can
// ask for the token, and the token cannot be taken for text.
const special = "\xff"

// Vocabulary holds the tokens of a model by their bytes, and the constraints that were compiled for
// it. It is safe for concurrent use.
type Vocabulary struct {
	size   int
	texts  []string // [size] by id; "" for a token without text
	stops  []int32  // tokens that end a reply
	marks  map[string]bool
	strips bool // a text does not begin with the space of its first token
	trie   trie
	once   sync.Once // makes base
	base   base
	cache  cache
}

func (v *Vocabulary) isStop(token int32) bool { return slices.Contains(v.stops, token) }

// trie holds the texts of tokens, in the order of a walk that visits a node before its children.
type trie struct {
	label  []byte
	depth  []int32 // of the node; the root, which is not listed, has 0
	end    []int32 // the node behind those below it
	first  []int32 // [nodes+1] where the node's tokens begin in tokens
	tokens []int32
	height int
}

// Of returns the vocabulary of a tokenizer. stops are the tokens that end a reply.
func Of(t *tokenizer.Tokenizer, stops []int32) *Vocabulary {
	texts := make([]string, t.VocabSize())
	marks := map[string]bool{}
	for id := range texts {
		text, isSpecial := t.Bytes(int32(id))
		if isSpecial && text != "" {
			marks[text] = true
			text = special + text
		}
		texts[id] = text
	}
	v := newVocabulary(texts, stops)
	v.marks, v.strips = marks, t.StripsFirst()
	return v
}

func newVocabulary(texts []string, stops []int32) *Vocabulary {
	v := &Vocabulary{size: len(texts), texts: texts}
	for _, id := range stops {
		if id >= 0 && int(id) < v.size {
			v.stops = append(v.stops, id)
			texts[id] = ""
		}
	}
	ids := make([]int32, 0, len(texts))
	for id, text := range texts {
		if text != "" {
			ids = append(ids, int32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return strings.Compare(texts[a], texts[b]) })
	v.trie.build(texts, ids)
	return v
}

// build makes the trie of tokens in the order of their texts.
func (t *trie) build(texts []string, ids []int32) {
	var open []int32 // the nodes of the text before
	before := ""
	for _, id := range ids {
		text, common := texts[id], 0
		for common < min(len(text), len(before)) && text[common] == before[common] {
			common++
		}
		for _, node := range open[common:] {
			t.end[node] = int32(len(t.label))
		}
		open = open[:common]
		for at := common; at < len(text); at++ {
			open = append(open, int32(len(t.label)))
			t.label, t.depth = append(t.label, text[at]), append(t.depth, int32(at+1))
			t.end, t.first = append(t.end, 0), append(t.first, int32(len(t.tokens)))
		}
		t.tokens, t.height, before = append(t.tokens, id), max(t.height, len(text)), text
	}
	for _, node := range open {
		t.end[node] = int32(len(t.label))
	}
	t.first = append(t.first, int32(len(t.tokens)))
}
