package modelfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Head is what a model computes from its last hidden states (after the final norm).
type Head int

const (
	// CausalLM is the vocabulary projection: logits of the next token.
	CausalLM Head = iota
	// SequenceClassification is score.weight [NumLabels, H], read at the last token that is no padding: a reward model.
	SequenceClassification
	// TokenClassification is score.weight [NumLabels, H] and score.bias [NumLabels], read at every token: with one label a value function (critic),
	// in the form that veRL trains and saves.
	TokenClassification
)

// headClasses are the ends of the class names of transformers.
var headClasses = [...]string{CausalLM: "ForCausalLM", SequenceClassification: "ForSequenceClassification", TokenClassification: "ForTokenClassification"}

func (h Head) String() string { return headClasses[h] }

// maxLabels bounds a classification head, generously.
const maxLabels = 1 << 16

// className is the class of transformers that a family has for a head.
func (f family) className(h Head) string {
	return strings.TrimSuffix(f.class, CausalLM.String()) + h.String()
}

// readHead finds the head in the class name; a config without one is of a language model.
func (c *Config) readHead(o *object, fam family) {
	classes, ok := o.raw["architectures"].([]any)
	if !ok || len(classes) == 0 {
		return
	}
	var known []string
	for h := range headClasses {
		known = append(known, fam.className(Head(h)))
	}
	at := slices.IndexFunc(known, func(name string) bool { return classes[0] == name })
	if at < 0 {
		o.fail("architectures is %v; expected one of %s", classes, strings.Join(known, ", "))
		return
	}
	if c.Head = Head(at); c.Head == CausalLM {
		return
	}
	c.NumLabels = o.labels()
	c.HeadBias = c.Head == TokenClassification && o.flag("token_classification_bias", true)
}

// labels is the number of labels as transformers finds it: those of id2label, else num_labels, else 2.
func (o *object) labels() int {
	if value := o.raw["id2label"]; value != nil {
		names, ok := value.(map[string]any)
		if !ok {
			o.fail("id2label is %v; expected an object", value)
		}
		return len(names)
	}
	return o.integer("num_labels", 2)
}

// headTensors lists the tensors of the head, none if it is tied to the embedding.
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

// headJSON sets what config.json says of a classification head. Dropout before the head is transformers' default for token classification
// (0.1); a head that was trained without it says 0.
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

// WithValueHead is the config with a value head: itself if it has one (a classification head of one label), else with a TokenClassification head.
func (c *Config) WithValueHead() (*Config, error) {
	if c.Head != CausalLM && c.NumLabels != 1 {
		return nil, fmt.Errorf("a %s of %d labels is no value function, which has 1", families[c.Architecture].className(c.Head), c.NumLabels)
	}
	if c.Head != CausalLM {
		return c, nil
	}
	v := *c
	v.Head, v.NumLabels, v.HeadBias = TokenClassification, 1, true
	return &v, nil
}

// WithValueHead is the model with a value head: itself if it has one, else its body with a new head, drawn as transformers does it for veRL:
// weight N(0, initializer_range²), bias 0. A reward model with one label keeps its head, as critics begin in TRL. It shares m's files: closing
// either closes both.
func (m *Model) WithValueHead(seed uint64) (*Model, error) {
	cfg, err := m.Config.WithValueHead()
	if err != nil {
		return nil, fmt.Errorf("modelfile: %s: %w", m.path, err)
	}
	if cfg == m.Config {
		return m, nil
	}
	v := &Model{Config: cfg, path: m.path, dir: m.dir, tensors: maps.Clone(m.tensors), vocabulary: m.vocabulary, closer: m.closer}
	delete(v.tensors, headName)
	for _, spec := range cfg.headTensors() {
		v.tensors[spec.Name] = initial(cfg, spec, seed, StyleHF)
	}
	return v, nil
}
