package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// composite is a model of text and images, whose text part is a model of a family. This program takes the text part for the
// model.
type composite struct {
	texts   []string       // families of which the text part may be; the first is that of a config.json that does not say it
	missing map[string]int // sizes of the text part if config.json does not say them
}

// composites has every known composite by its model_type.
var composites = map[string]composite{}

// wraps adds a composite. The file of the family of its text part calls it.
func wraps(name string, c composite) composite {
	composites[name] = c
	return c
}

const tiedKey = "tie_word_embeddings"

// wholeKeys are the keys that a composite may give beside text_config, for its text part.
var wholeKeys = []string{
	"bos_token_id", "eos_token_id", "pad_token_id", tiedKey, "initializer_range", "dtype", "torch_dtype",
	"quantization_config", "transformers_version",
}

// textPart returns the config of a model's text part, and the model_type of the whole. It returns raw and "" if raw is of no
// composite.
func textPart(raw map[string]any) (text map[string]any, whole string, err error) {
	name, _ := raw["model_type"].(string)
	of, known := composites[name]
	if !known {
		return raw, "", nil
	}
	inner, ok := raw["text_config"].(map[string]any)
	if !ok {
		return nil, "", fmt.Errorf("text_config is missing or is no object; a %s has its text part there", name)
	}
	if classes, _ := raw["architectures"].([]any); len(classes) > 0 {
		class, _ := classes[0].(string)
		if !strings.HasSuffix(class, "ForConditionalGeneration") && !strings.HasSuffix(class, CausalLM.String()) {
			return nil, "", fmt.Errorf("architectures is %q; the text part of a %s is read of language models alone", class, name)
		}
	}
	text = maps.Clone(inner)
	delete(text, "architectures")
	for _, key := range wholeKeys {
		if text[key] == nil && raw[key] != nil {
			text[key] = raw[key]
		}
	}
	outer, isFlag := raw[tiedKey].(bool)
	if tied, both := text[tiedKey].(bool); isFlag && both && tied != outer {
		return nil, "", fmt.Errorf("%s is %v, and %v in text_config; they must agree", tiedKey, outer, tied)
	}
	if text["model_type"] == nil {
		text["model_type"] = of.texts[0]
	}
	if own, _ := text["model_type"].(string); !slices.Contains(of.texts, own) {
		return nil, "", fmt.Errorf("text_config: model_type is %.100q; the text part of a %s is a %s", own, name,
			strings.Join(of.texts, " or a "))
	}
	for key, value := range of.missing {
		if text[key] == nil {
			text[key] = json.Number(strconv.Itoa(value))
		}
	}
	return text, name, nil
}

// textPrefixes begin the names of a composite's text tensors, with those of a text model.
var textPrefixes = []struct{ composite, text string }{
	{"model.language_model.", bodyPrefix}, {"language_model.model.", bodyPrefix}, {"language_model." + headName, headName},
}

// textTensors returns the tensors of a model's text part by the names of a text model. Some text models are saved with the names
// of a composite, too. alone leaves out all that is of other parts.
func textTensors(all map[string]safetensors.Tensor, alone bool) map[string]safetensors.Tensor {
	text := map[string]safetensors.Tensor{}
	for name, t := range all {
		own, part := name, name == headName
		for _, prefix := range textPrefixes {
			if rest, ok := strings.CutPrefix(name, prefix.composite); ok {
				own, part = prefix.text+rest, true
				break
			}
		}
		if part || !alone {
			t.Name = own
			text[own] = t
		}
	}
	if alone && !has(text, embeddingName) && has(all, embeddingName) {
		return all // a text model, which keeps the config of the whole
	}
	return text
}

// Notes returns what the files say and this program leaves out, in lines for people.
func (c *Config) Notes() (lines []string) {
	if c.PartOf != "" {
		const part = "the model is the text part (%s) of a %s: the tensors that read images are left out"
		lines = append(lines, fmt.Sprintf(part, c.Architecture, c.PartOf))
	}
	o := object{raw: c.Raw}
	for _, key := range dropouts {
		if p := o.number(key, 0); p != 0 {
			lines = append(lines, fmt.Sprintf("%s %v is left out: without dropout a trained log-probability is the sampled one", key, p))
		}
	}
	return lines
}
