package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity/internal/model/gguf"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

const chatTemplateKey = "tokenizer.chat_template"

// vocabularyKeys are the keys without which a kind of tokenizer cuts texts into other tokens: bytes
// instead of words, and the marks of turns into letters.
var vocabularyKeys = map[string][]string{
	"":      {"model"},
	"gpt2":  {"pre", "merges", "token_type"},
	"llama": {"scores", "token_type"},
}

// vocabulary reads tokenizer.ggml.*. It returns nil if the file has no tokens.
func (m *metadata) vocabulary() *tokenizer.Vocabulary {
	tokens, ok := optional[[]string](m, "tokenizer.ggml.tokens")
	if !ok {
		return nil
	}
	v := &tokenizer.Vocabulary{Tokens: tokens}
	v.Model, _ = optional[string](m, "tokenizer.ggml.model")
	v.Pre, _ = optional[string](m, "tokenizer.ggml.pre")
	v.Merges, _ = optional[[]string](m, "tokenizer.ggml.merges")
	v.Scores, _ = optional[[]float32](m, "tokenizer.ggml.scores")
	v.Types, _ = optional[[]int32](m, "tokenizer.ggml.token_type")
	v.ChatTemplate, _ = optional[string](m, chatTemplateKey)
	v.BOS, v.EOS = m.tokenID("bos", v), m.tokenID("eos", v)
	v.UNK, v.PAD = m.tokenID("unknown", v), m.tokenID("padding", v)
	v.AddBOS, v.AddEOS, v.AddSpacePrefix = m.tristate("add_bos_token"), m.tristate("add_eos_token"), m.tristate("add_space_prefix")
	for _, key := range vocabularyKeys[v.Model] {
		if _, ok := m.file.Value("tokenizer.ggml." + key); !ok {
			m.fail("metadata tokenizer.ggml.%s is missing: without it the tokenizer of model %q would give "+
				"other tokens; convert the model again", key, v.Model)
		}
	}
	for what, n := range map[string]int{"scores": len(v.Scores), "token_type": len(v.Types)} {
		if n != 0 && n != len(tokens) {
			m.fail("metadata tokenizer.ggml.%s has %d entries; expected one for each of %d tokens",
				what, n, len(tokens))
		}
	}
	return v
}

func (m *metadata) tokenID(which string, v *tokenizer.Vocabulary) int32 {
	key := "tokenizer.ggml." + which + "_token_id"
	id := m.integer(key, -1)
	if id >= len(v.Tokens) {
		m.fail("metadata %s is %d; the vocabulary has %d tokens", key, id, len(v.Tokens))
		return -1
	}
	return int32(id)
}

// ends returns the tokens that end a reply: of a text, a turn, a message.
func (m *metadata) ends(v *tokenizer.Vocabulary) []int32 {
	all := ids(v.EOS)
	for _, which := range endKeys[1:] {
		if id := m.tokenID(which, v); id >= 0 && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

func (m *metadata) tristate(key string) *bool {
	b, ok := optional[bool](m, "tokenizer.ggml."+key)
	if !ok {
		return nil
	}
	return &b
}

// shortest returns the float64 that prints like f: 1e-5 stored as float32 becomes 1e-5, as in
// config.json.
func shortest(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return v
}

// endKeys are the keys for tokens that end a reply: of a text, a turn, a message.
var endKeys = []string{"eos", "eot", "eom"}

// vocabularyPairs returns the metadata of the tokenizer; v is nil if there is none.
func (c *Config) vocabularyPairs(v *tokenizer.Vocabulary) ([]gguf.Pair, error) {
	var pairs []gguf.Pair
	add := func(key string, value any) {
		pairs = append(pairs, gguf.Pair{Key: "tokenizer.ggml." + key, Value: value})
	}
	if v == nil {
		v = &tokenizer.Vocabulary{Model: "none", BOS: -1, EOS: -1, UNK: -1, PAD: -1}
	}
	add("model", v.Model)
	if v.Model == "gpt2" {
		add("pre", cmp.Or(v.Pre, "default"))
		add("merges", append([]string{}, v.Merges...))
	}
	if v.Tokens != nil {
		add("tokens", v.Tokens)
		add("token_type", v.Types)
	}
	if v.Scores != nil {
		add("scores", v.Scores)
	}
	id := func(key string, id int32, others []int32) {
		if id < 0 && len(others) > 0 {
			id = others[0]
		}
		if id >= 0 {
			add(key+"_token_id", uint32(id))
		}
	}
	id("bos", v.BOS, c.BOS)
	ends := slices.DeleteFunc(slices.Clone(c.EOS), func(id int32) bool { return id == v.EOS })
	if v.EOS >= 0 {
		ends = slices.Insert(ends, 0, v.EOS)
	}
	if v.Tokens != nil && len(ends) == 0 {
		return nil, fmt.Errorf("the model has no end token: set eos_token_id in %s", configName)
	}
	if len(ends) > len(endKeys) {
		return nil, fmt.Errorf("the model has the end tokens %v; a GGUF file names at most %d", ends, len(endKeys))
	}
	for i, end := range ends {
		id(endKeys[i], end, nil)
	}
	id("unknown", v.UNK, nil)
	id("padding", v.PAD, c.PAD)
	for _, flag := range []struct {
		key   string
		value *bool
	}{{"add_bos_token", v.AddBOS}, {"add_eos_token", v.AddEOS}, {"add_space_prefix", v.AddSpacePrefix}} {
		if flag.value != nil {
			add(flag.key, *flag.value)
		}
	}
	if v.ChatTemplate != "" {
		pairs = append(pairs, gguf.Pair{Key: chatTemplateKey, Value: v.ChatTemplate})
	}
	return pairs, nil
}
