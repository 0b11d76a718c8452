package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Vocabulary is the tokenizer of a GGUF file, with the values of tokenizer.ggml.* (llama.cpp).
type Vocabulary struct {
	Model  string    // "gpt2": byte-level; "llama": SentencePiece
	Pre    string    // the pre-tokenizer of a gpt2 model: "smollm", "llama-bpe", "qwen2", "gpt-2", …; "" is "default"
	Tokens []string  // by id; in the byte alphabet for a gpt2 model
	Merges []string  // gpt2: "left right", best first
	Scores []float32 // llama: by id; higher scores merge first
	Types  []int32   // by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; nil if all are normal

	BOS, EOS, UNK, PAD int32 // ids, -1 if none

	// AddBOS and AddEOS are the tokens that Encode adds with addSpecial. AddSpacePrefix prepends a
	// space to a llama model's text, which Decode removes. If nil, llama models and the
	// pre-tokenizers of Llama 3 add a BOS, and llama models add a space.
	AddBOS, AddEOS, AddSpacePrefix *bool

	ChatTemplate string
}

// Types of tokens in a GGUF file.
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// FromVocabulary returns the tokenizer of a GGUF file. The tokenizer.json that WriteFiles writes
// gives the same ids.
func FromVocabulary(v Vocabulary) (*Tokenizer, error) {
	d, err := v.definition()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: vocabulary: %w", err)
	}
	t, err := build(d)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: vocabulary: %w", err)
	}
	t.template = v.ChatTemplate
	t.names = specialNames{v.token(v.BOS), v.token(v.EOS), v.token(v.PAD), v.token(v.UNK)}
	return t, nil
}

// addsBOS follows llama.cpp.
func (v *Vocabulary) addsBOS() bool {
	return given(v.AddBOS, v.Model == "llama" || v.Model == "gpt2" && preKinds[v.Pre].addBOS)
}

func (v *Vocabulary) addsSpacePrefix() bool { return given(v.AddSpacePrefix, v.Model == "llama") }

func given(b *bool, byDefault bool) bool {
	if b != nil {
		return *b
	}
	return byDefault
}

func (v *Vocabulary) token(id int32) string {
	if id < 0 {
		return ""
	}
	return v.Tokens[id]
}

func (v *Vocabulary) definition() (*definition, error) {
	vocab, err := v.vocab()
	if err != nil {
		return nil, err
	}
	d := &definition{Version: "1.0", Model: &modelDefinition{Type: "BPE", Vocab: vocab, Merges: mergeList{}}, AddedTokens: v.addedTokens()}
	if d.PostProcessor, err = v.postProcessor(); err != nil {
		return nil, err
	}
	switch v.Model {
	case "gpt2":
		return d, v.defineByteLevel(d)
	case "llama":
		return d, v.defineSentencePiece(d)
	}
	return nil, fmt.Errorf("model is %q; supported are \"gpt2\" and \"llama\"", v.Model)
}

// vocab checks the lists and indexes the tokens.
func (v *Vocabulary) vocab() (map[string]int32, error) {
	if len(v.Tokens) == 0 || len(v.Tokens) > maxID {
		return nil, fmt.Errorf("%d tokens; expected 1 to %d", len(v.Tokens), maxID)
	}
	if v.Types != nil && len(v.Types) != len(v.Tokens) {
		return nil, fmt.Errorf("%d token types for %d tokens", len(v.Types), len(v.Tokens))
	}
	for name, id := range map[string]int32{"BOS": v.BOS, "EOS": v.EOS, "UNK": v.UNK, "PAD": v.PAD} {
		if id < -1 || int(id) >= len(v.Tokens) {
			return nil, fmt.Errorf("%s is id %d; expected -1 or less than %d", name, id, len(v.Tokens))
		}
	}
	vocab := make(map[string]int32, len(v.Tokens))
	for id, token := range v.Tokens {
		if !utf8.ValidString(token) || token == "" {
			return nil, fmt.Errorf("token %d is %q; expected UTF-8 text", id, token)
		}
		if first, ok := vocab[token]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %q", first, id, token)
		}
		vocab[token] = int32(id)
	}
	return vocab, nil
}

func (v *Vocabulary) kind(id int32) int32 {
	if v.Types == nil {
		return typeNormal
	}
	return v.Types[id]
}

func (v *Vocabulary) addedTokens() []addedToken {
	added := []addedToken{}
	for i, token := range v.Tokens {
		id := int32(i)
		switch v.kind(id) {
		case typeControl, typeUnknown:
			added = append(added, addedToken{ID: id, Content: token, Special: true})
		case typeUserDefined:
			// SentencePiece looks for these after it has replaced spaces by ▁.
			normalized := strings.Contains(token, "▁") && !v.addsSpacePrefix()
			added = append(added, addedToken{ID: id, Content: token, Normalized: normalized})
		}
	}
	return added
}

func (v *Vocabulary) postProcessor() (json.RawMessage, error) {
	t := template{Type: "TemplateProcessing", SpecialTokens: map[string]templateToken{}}
	add := func(wanted bool, id int32, name string) error {
		if !wanted {
			return nil
		}
		if id < 0 {
			return fmt.Errorf("the file adds a %s to texts but has none", name)
		}
		token := v.Tokens[id]
		t.Single = append(t.Single, templatePiece{SpecialToken: &templateItem{ID: token}})
		t.SpecialTokens[token] = templateToken{token, []int32{id}, []string{token}}
		return nil
	}
	if err := add(v.addsBOS(), v.BOS, "BOS"); err != nil {
		return nil, err
	}
	t.Single = append(t.Single, templatePiece{Sequence: &templateItem{ID: "A"}})
	if err := add(given(v.AddEOS, false), v.EOS, "EOS"); err != nil {
		return nil, err
	}
	t.Pair = append(slices.Clone(t.Single), templatePiece{Sequence: &templateItem{ID: "B", TypeID: 1}})
	return json.Marshal(t)
}

func (v *Vocabulary) defineByteLevel(d *definition) error {
	pre, ok := preKinds[cmp.Or(v.Pre, "default")]
	if !ok {
		return fmt.Errorf("pre is %q; known are %s", v.Pre, strings.Join(slices.Sorted(maps.Keys(preKinds)), ", "))
	}
	d.Normalizer, d.PreTokenizer = pre.normalizer, pre.preTokenizer
	d.Model.IgnoreMerges = pre.ignoreMerges
	d.Decoder = json.RawMessage(`{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`)
	for i, m := range v.Merges {
		left, right, ok := strings.Cut(m, " ")
		if !ok {
			return fmt.Errorf("merges[%d] is %q; expected two tokens with a space between", i, m)
		}
		d.Model.Merges = append(d.Model.Merges, [2]string{left, right})
	}
	return nil
}

func (v *Vocabulary) defineSentencePiece(d *definition) error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("%d scores for %d tokens", len(v.Scores), len(v.Tokens))
	}
	if len(v.Merges) > 0 {
		return fmt.Errorf("a llama model merges by score, but there are %d merges", len(v.Merges))
	}
	d.Normalizer = json.RawMessage(`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`)
	strip := ""
	if v.addsSpacePrefix() {
		d.Normalizer = json.RawMessage(`{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},` + string(d.Normalizer) + `]}`)
		strip = `,{"type":"Strip","content":" ","start":1,"stop":0}`
	}
	d.Decoder = json.RawMessage(`{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},` +
		`{"type":"ByteFallback"},{"type":"Fuse"}` + strip + `]}`)
	_, d.Model.ByteFallback = d.Model.Vocab["<0x00>"]
	if v.UNK >= 0 {
		d.Model.UnkToken, d.Model.FuseUnk = &v.Tokens[v.UNK], true
	}
	d.Model.Merges = v.mergesByScore(d.Model.Vocab)
	return nil
}

// mergesByScore lists every pair of tokens that join to a third, best score first. Among equal
// scores a longer left part comes first, then a longer right part.
func (v *Vocabulary) mergesByScore(vocab map[string]int32) mergeList {
	type scored struct {
		parts                [2]string
		score                float32
		leftLength, leftID   int32
		rightLength, rightID int32
		joined               int32
	}
	var all []scored
	for id, token := range v.Tokens {
		if k := v.kind(int32(id)); k == typeControl || k == typeUnknown || k == typeByte {
			continue // merging never makes one of these
		}
		length, total := int32(0), int32(utf8.RuneCountInString(token))
		for cut := range token {
			left, okLeft := vocab[token[:cut]]
			right, okRight := vocab[token[cut:]]
			if cut > 0 && okLeft && okRight {
				all = append(all, scored{[2]string{token[:cut], token[cut:]}, v.Scores[id], length, left, total - length, right, int32(id)})
			}
			length++
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.leftLength, a.leftLength), cmp.Compare(b.rightLength, a.rightLength),
			cmp.Compare(a.joined, b.joined), cmp.Compare(a.leftID, b.leftID), cmp.Compare(a.rightID, b.rightID))
	})
	list := make(mergeList, len(all))
	for i, m := range all {
		list[i] = m.parts
	}
	return list
}
