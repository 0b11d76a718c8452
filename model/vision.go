package model

import (
	"maps"
	"slices"
	"strings"
)

// Vision describes what makes features of images in a model that reads them. The embedded engine computes none.
type Vision struct {
	Placeholder int32 // the token in whose places features stand
	Layers      int   // of the tower
	Width, MLP  int   // of a layer
	Patches     int   // of an image, for each of its tokens
	Parameters  int64 // numbers in it; an estimate if the files are not here

	text string // the module that holds the layers of the language model, below "model."
}

// visionForm says where a family's config.json has its Vision.
type visionForm struct {
	text       string // see Vision
	layers     string // key of the number of layers
	merge      string // key of the patches in a row that become one token
	mergeAbove bool   // it is outside of vision_config
	missing    Vision // values that config.json may lack; Patches has the default of merge
}

// textOf returns raw with the keys of its text_config beside the others. Where both have a key of classes, special tokens or
// the head, that of the whole model counts. Older files have no text_config.
func textOf(raw map[string]any) map[string]any {
	text, nested := raw["text_config"].(map[string]any)
	if !nested {
		return raw
	}
	all := maps.Clone(raw)
	for key, value := range text {
		whole := slices.Contains([]string{"model_type", "architectures", "tie_word_embeddings"}, key) || strings.HasSuffix(key, "_token_id")
		if whole && raw[key] != nil || key == "architectures" {
			continue
		}
		all[key] = value
	}
	return all
}

// readVision reads the Vision of a family that has one.
func readVision(r *configReader) *Vision {
	form := r.family.vision
	if form == nil {
		return nil
	}
	raw, ok := r.raw["vision_config"].(map[string]any)
	if !ok {
		r.fail("vision_config is %v; expected an object", quoted(r.raw["vision_config"]))
		return nil
	}
	o := object{raw: raw, path: "vision_config: "}
	v := &Vision{
		Layers: o.integer(form.layers, form.missing.Layers), Width: o.integer("hidden_size", form.missing.Width),
		MLP: o.integer("intermediate_size", form.missing.MLP),
	}
	from := &o
	if form.mergeAbove {
		from = &r.object
	}
	merge := from.integer(form.merge, form.missing.Patches)
	for key, n := range map[string]int{form.layers: v.Layers, "hidden_size": v.Width, "intermediate_size": v.MLP, form.merge: merge} {
		if n < 1 || n > maxDimension {
			o.fail("%s is %d; expected 1 to %d", key, n, maxDimension)
		}
	}
	r.errs = append(r.errs, o.errs...)
	v.Patches = merge * merge
	v.text, v.Parameters = form.text, v.estimate(r.c.HiddenSize)
	v.Placeholder = int32(r.integer("image_token_id", int(form.missing.Placeholder)))
	return v
}

// estimate returns about how many numbers read images, for a model whose files are not here.
func (v *Vision) estimate(hidden int) int64 {
	width, mlp, patches := int64(v.Width), int64(v.MLP), int64(v.Patches)
	return int64(v.Layers)*(4*width*width+3*width*mlp) + patches*width*(patches*width+int64(hidden))
}

// count returns how many numbers read images, by the tensors of the files.
func (v *Vision) count(tensors []TensorSpec) (n int64) {
	text := []string{"layers", "embed_tokens", "norm", v.text}
	for _, t := range tensors {
		if first, _, _ := strings.Cut(strings.TrimPrefix(t.Name, bodyPrefix), "."); !slices.Contains(text, first) {
			n += int64(product(t.Shape))
		}
	}
	return n
}

// layersName returns what the names of a layer's modules begin with, before its number.
func (f *Foreign) layersName() string {
	if f != nil && f.Vision != nil {
		return bodyPrefix + f.Vision.text + ".layers."
	}
	return bodyPrefix + "layers."
}
