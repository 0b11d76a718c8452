package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// config holds the settings of tokenizer_config.json, special_tokens_map.json and
// chat_template.jinja. Like transformers 5 it ignores add_bos_token and add_eos_token: the
// post-processor of tokenizer.json decides.
type config struct {
	ChatTemplate       json.RawMessage          `json:"chat_template"`
	AddedTokensDecoder map[string]*decoderEntry `json:"added_tokens_decoder"`

	names    specialNames
	template string
}

// decoderEntry is an entry of added_tokens_decoder: an added token; the key is its id.
type decoderEntry struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// specialNames are the tokens with a role; "" if there is none.
type specialNames struct{ BOS, EOS, PAD, UNK string }

func (n *specialNames) byKey() map[string]string {
	return map[string]string{"bos_token": n.BOS, "eos_token": n.EOS, "pad_token": n.PAD, "unk_token": n.UNK}
}

func parseConfig(files map[string][]byte) (*config, error) {
	c := new(config)
	if err := decodeLoose(files, configFile, c); err != nil {
		return nil, err
	}
	// The later file wins: tokenizer_config.json, even if a key of it is null.
	for _, name := range []string{specialsFile, configFile} {
		if err := c.names.read(files, name); err != nil {
			return nil, err
		}
	}
	if jinja, ok := files[chatTemplateFile]; ok {
		c.template = string(jinja)
		return c, nil
	}
	var err error
	c.template, err = chatTemplate(c.ChatTemplate)
	return c, err
}

func (n *specialNames) read(files map[string][]byte, name string) error {
	var d struct {
		BOS json.RawMessage `json:"bos_token"`
		EOS json.RawMessage `json:"eos_token"`
		PAD json.RawMessage `json:"pad_token"`
		UNK json.RawMessage `json:"unk_token"`
	}
	if err := decodeLoose(files, name, &d); err != nil {
		return err
	}
	for _, f := range []struct {
		key  string
		data json.RawMessage
		to   *string
	}{{"bos_token", d.BOS, &n.BOS}, {"eos_token", d.EOS, &n.EOS}, {"pad_token", d.PAD, &n.PAD}, {"unk_token", d.UNK, &n.UNK}} {
		if f.data == nil {
			continue
		}
		var token struct{ Content string }
		if json.Unmarshal(f.data, &token.Content) != nil && json.Unmarshal(f.data, &token) != nil {
			return fmt.Errorf("%s: %s is %s; expected a string or an object with content", name, f.key, f.data)
		}
		*f.to = token.Content
	}
	return nil
}

// chatTemplate reads chat_template: a string, or a list of named templates with one called
// "default".
func chatTemplate(data json.RawMessage) (string, error) {
	if len(data) == 0 {
		return "", nil
	}
	var one *string
	if json.Unmarshal(data, &one) == nil {
		if one == nil {
			return "", nil
		}
		return *one, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(data, &list); err != nil {
		return "", fmt.Errorf("%s: chat_template: expected a string or a list of {name, template}: %w", configFile, err)
	}
	var names []string
	for _, t := range list {
		if t.Name == "default" || len(list) == 1 {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("%s: chat_template has the templates %q; expected one called \"default\"", configFile, names)
}

// addTokens adds to d the tokens that are only in tokenizer_config.json.
func (c *config) addTokens(d *definition) error {
	known := map[string]bool{}
	for _, a := range d.AddedTokens {
		known[a.Content] = true
	}
	var added []addedToken
	for key, e := range c.AddedTokensDecoder {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || e == nil {
			return fmt.Errorf("added_tokens_decoder: %q is not an id with a token", key)
		}
		if !known[e.Content] {
			added = append(added, addedToken{int32(id), e.Content, e.SingleWord, e.LStrip, e.RStrip, e.Normalized, e.Special})
		}
	}
	slices.SortFunc(added, func(a, b addedToken) int { return int(a.ID) - int(b.ID) })
	d.AddedTokens = append(d.AddedTokens, added...)
	return nil
}
