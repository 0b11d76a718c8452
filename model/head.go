package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Head is the last part of a model: it computes the output from the hidden states after the final
// norm.
type Head int

const (
	// CausalLM is the vocabulary projection: logits of the next token.
	CausalLM Head = iota
	// SequenceClassification is score.weight [NumLabels, H], applied to the last token that is not
	// padding: a reward model.
	SequenceClassification
	// TokenClassification is score.weight [NumLabels, H] and score.bias [NumLabels], applied to
	// every token. With one label it is a value function (critic) as veRL trains and saves it.
	TokenClassification
)

// headClasses are the suffixes of transformers' class names.
var headClasses = [...]string{CausalLM: "ForCausalLM", SequenceClassification: "ForSequenceClassification",
	TokenClassification: "ForTokenClassification"}

func (h Head) String() string { return headClasses[h] }

// lack reports whether transformers has no class of the family with a head.
func (c classes) lack(h Head) bool { return slices.Contains(c.without, h) }

// bothHeads are the heads of a critic and of a reward model.
var bothHeads = []Head{SequenceClassification, TokenClassification}

// maxLabels bounds the labels of a classification head, far above any model's.
const maxLabels = 1 << 16

// className returns the name of transformers' class for this family and a head.
func (f family) className(h Head) string {
	if h == CausalLM {
		return f.class
	}
	return cmp.Or(f.classes.prefix, strings.TrimSuffix(f.class, CausalLM.String())) + h.String()
}

// head derives the head from the class name. Without a class name the model is a language
// model.
func (r *configReader) head() {
	classes, ok := r.raw["architectures"].([]any)
	if !ok || len(classes) == 0 {
		return
	}
	var known []string
	at := -1
	for h := range headClasses {
		if name := r.className(Head(h)); !r.classes.lack(Head(h)) {
			known = append(known, name)
			if classes[0] == name {
				at = h
			}
		}
	}
	if at < 0 {
		r.fail("architectures is %v; expected one of %s", classes, strings.Join(known, ", "))
		return
	}
	if r.c.Head = Head(at); r.c.Head == CausalLM {
		return
	}
	r.c.NumLabels = r.integer("num_labels", 2)
	if value := r.raw["id2label"]; value != nil { // it counts, as in transformers
		names, ok := value.(map[string]any)
		if !ok {
			r.fail("id2label is %v; expected an object", value)
		}
		r.c.NumLabels = len(names)
	}
	r.c.HeadBias = r.c.Head == TokenClassification && r.flag("token_classification_bias", true)
}

// headTensors lists the tensors of the head. There are none if it is tied to the embedding.
func (c *Config) headTensors() []TensorSpec {
	switch {
	case c.Head == CausalLM && c.TieEmbeddings:
		return nil
	case c.Head == CausalLM:
		return []TensorSpec{{headName, []int{c.VocabSize, c.HiddenSize}}}
	}
	specs := []TensorSpec{{scoreName, []int{c.NumLabels, c.HiddenSize}}}
	if c.HeadBias {
		specs = append(specs, TensorSpec{scoreBiasName, []int{c.NumLabels}})
	}
	return specs
}

// headJSON sets the keys of a classification head in config.json. It sets classifier_dropout to 0
// because the head was trained without dropout; transformers' default for token classification is
// 0.1.
func (c *Config) headJSON(raw map[string]any) {
	raw["architectures"] = []string{families[c.Architecture].className(c.Head)}
	if c.Head == CausalLM {
		return
	}
	if names, _ := raw["id2label"].(map[string]any); len(names) != c.NumLabels {
		labels, ids := map[string]any{}, map[string]any{}
		for i := range c.NumLabels {
			name := fmt.Sprintf("LABEL_%d", i)
			labels[fmt.Sprint(i)], ids[name] = name, i
		}
		raw["id2label"], raw["label2id"] = labels, ids
	}
	delete(raw, "num_labels")
	if c.Head == TokenClassification {
		raw["classifier_dropout"] = 0.0
	}
}

// WithHead returns the config with a head of one label: a TokenClassification as a value function,
// a SequenceClassification as a reward model. A config that has a fitting head is returned as it
// is; a reward model's head also fits a value function. It is an error if transformers has no class of
// the family with the head.
func (c *Config) WithHead(h Head) (*Config, error) {
	name := families[c.Architecture].className(c.Head)
	switch {
	case c.Head == CausalLM && families[c.Architecture].classes.lack(h):
		kinds := map[Head]string{TokenClassification: "critic", SequenceClassification: "reward model"}
		return nil, fmt.Errorf("transformers has no class of %s models with the head of a %s, so that nothing would open what the run "+
			"saves: name a model of another family", c.Architecture, kinds[h])
	case c.Head == CausalLM:
		with := *c
		with.Head, with.NumLabels, with.HeadBias = h, 1, h == TokenClassification
		with.PAD = (&object{raw: c.Raw}).tokens("pad_token_id") // classification reads config.json alone
		return &with, nil
	case h == SequenceClassification && c.Head != h:
		return nil, fmt.Errorf("a %s has a value at each token and no score of a sequence", name)
	case c.NumLabels != 1:
		return nil, fmt.Errorf("a %s with %d labels is neither a value function nor a reward to train, which have 1 label", name, c.NumLabels)
	}
	return c, nil
}

// WithHead returns the model with a head of one label. A language model gets a new head as
// transformers makes it: weight N(0, initializer_range²), bias 0. A reward model keeps its head,
// also as a critic, as in TRL. Both models share the files: closing one closes the other.
func (m *Model) WithHead(h Head, seed uint64) (*Model, error) {
	cfg, err := m.Config.WithHead(h)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", m.path, err)
	}
	if cfg == m.Config {
		return m, nil
	}
	with := &Model{Config: cfg, path: m.path, dir: m.dir, tensors: maps.Clone(m.tensors), vocabulary: m.vocabulary, closer: m.closer}
	delete(with.tensors, headName)
	for _, spec := range cfg.headTensors() {
		with.tensors[spec.Name] = initial(cfg, spec, seed, styleHF)
	}
	return with, nil
}
