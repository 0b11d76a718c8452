// Package tokenizer converts text to token ids and back: byte-pair encoding, byte-level or as in
// SentencePiece. It reads a Hugging Face tokenizer.json or the vocabulary of a GGUF file.
//
// The ids equal those of the Hugging Face tokenizers library; tests compare them with recorded
// references. Loading a file with an unsupported setting is an error; no setting is ignored
// silently.
package tokenizer

import (
	"fmt"
	"sync"
)

// Tokenizer is safe for concurrent use.
type Tokenizer struct {
	definition *definition
	files      map[string][]byte // as loaded, by name; nil if the source is a Vocabulary

	beforeNormalizing, afterNormalizing *addedMatcher

	normalize normalizer
	split     *preTokenizer
	model     *bpe
	frame     frame
	decoder   *decoder

	tokens  []string // [VocabSize] by id; "" for an unused id
	ids     map[string]int32
	special map[int32]bool

	names    specialNames
	template string
	scratch  sync.Pool // *scratch
}

// scratch is working memory of one Encode.
type scratch struct {
	segments, parts []segment
	words, spare    []piece
}

// maxID bounds the table of tokens; real vocabularies have fewer than 2¹⁹.
const maxID = 1<<22 - 1

func build(d *definition) (*Tokenizer, error) {
	t := &Tokenizer{definition: d}
	t.scratch.New = func() any { return new(scratch) }
	var err error
	if t.normalize, err = newNormalizer(d.Normalizer, "normalizer"); err != nil {
		return nil, err
	}
	if err := checkGrowth(d.Normalizer, "normalizer"); err != nil {
		return nil, err
	}
	if err := checkGrowth(d.Decoder, "decoder"); err != nil {
		return nil, err
	}
	if t.split, err = newPreTokenizer(d.PreTokenizer); err != nil {
		return nil, err
	}
	if t.model, err = newBPE(d.Model, t.split.byteLevel); err != nil {
		return nil, err
	}
	if t.decoder, err = newDecoder(d.Decoder); err != nil {
		return nil, err
	}
	if err := t.indexTokens(); err != nil {
		return nil, err
	}
	if t.frame, err = newFrame(d.PostProcessor, "post_processor"); err != nil {
		return nil, err
	}
	for _, list := range [][]int32{t.frame.before, t.frame.after} {
		for _, id := range list {
			if !t.has(id) {
				return nil, fmt.Errorf("post_processor inserts id %d, which the vocabulary does not have", id)
			}
		}
	}
	return t, nil
}

// indexTokens fills the tables between ids and tokens and prepares the search for added tokens.
func (t *Tokenizer) indexTokens() error {
	vocab := t.definition.Model.Vocab
	t.ids, t.special = vocab, map[int32]bool{}
	t.tokens = make([]string, 0, len(vocab)+len(t.definition.AddedTokens))
	for token, id := range vocab {
		if err := t.place(id, token); err != nil {
			return err
		}
	}
	var before, after []addedPattern
	for _, a := range t.definition.AddedTokens {
		if id, ok := vocab[a.Content]; ok && id != a.ID {
			return fmt.Errorf("added token %q has id %d; in model.vocab it has %d", a.Content, a.ID, id)
		}
		if err := t.place(a.ID, a.Content); err != nil {
			return err
		}
		if a.Special {
			t.special[a.ID] = true
		}
		if a.Normalized {
			text := a.Content
			if t.normalize != nil {
				text = t.normalize(text)
			}
			after = append(after, addedPattern{text, a})
		} else {
			before = append(before, addedPattern{a.Content, a})
		}
	}
	t.addIDs()
	t.beforeNormalizing, t.afterNormalizing = newAddedMatcher(before), newAddedMatcher(after)
	return nil
}

// addIDs adds the added tokens to a copy of the ids, because the model must not find them in its
// vocabulary.
func (t *Tokenizer) addIDs() {
	ids := make(map[string]int32, len(t.tokens))
	for token, id := range t.ids {
		ids[token] = id
	}
	for _, a := range t.definition.AddedTokens {
		ids[a.Content] = a.ID
	}
	t.ids = ids
}

func (t *Tokenizer) place(id int32, token string) error {
	if id < 0 || id > maxID {
		return fmt.Errorf("token %q has id %d; expected 0 to %d", token, id, maxID)
	}
	for int(id) >= len(t.tokens) {
		t.tokens = append(t.tokens, make([]string, int(id)+1-len(t.tokens))...)
	}
	if held := t.tokens[id]; held != "" && held != token {
		return fmt.Errorf("id %d belongs to two tokens, %q and %q", id, held, token)
	}
	t.tokens[id] = token
	return nil
}

func (t *Tokenizer) has(id int32) bool {
	return id >= 0 && int(id) < len(t.tokens) && t.tokens[id] != ""
}

// VocabSize returns the largest id plus one. A model's embedding may have more rows.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID returns the id of a token, spelled as in the file (byte-level tokens in the byte
// alphabet: "Ġthe").
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Token returns a token, spelled as in the file; "" for an unused id.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.tokens[id]
}

// BOS returns the id of the token that begins a text; -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.named(t.names.BOS) }

// EOS returns the id of the token that ends a text; -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.named(t.names.EOS) }

// PAD returns the id of the padding token; -1 if there is none.
func (t *Tokenizer) PAD() int32 { return t.named(t.names.PAD) }

// UNK returns the id of the token for unknown text; -1 if there is none.
func (t *Tokenizer) UNK() int32 { return t.named(t.names.UNK) }

func (t *Tokenizer) named(token string) int32 {
	if id, ok := t.ids[token]; ok && token != "" {
		return id
	}
	return -1
}

// ChatTemplate returns the Jinja chat template; "" if there is none.
func (t *Tokenizer) ChatTemplate() string { return t.template }
