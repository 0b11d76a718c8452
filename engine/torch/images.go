package torch

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// The values of args.Vision.
const (
	frozenVision  = "frozen"
	trainedVision = "trained"
)

// trainsVision reports whether a model's tower is trained.
func (a *args) trainsVision(cfg *model.Config, spec *engine.TrainerSpec) bool {
	return cfg.Vision() != nil && spec.Train && a.Vision == trainedVision
}

// checkVision refuses what the worker does not do with a model that reads images, and what a model without a tower lacks.
func (a *args) checkVision(cfg *model.Config, spec *engine.TrainerSpec) error {
	const key = "trainer.trainer_args.vision"
	switch path := spec.ModelPath; {
	case cfg.Vision() == nil:
		if spec.Train && spec.Head == engine.LogprobHead && a.Vision == trainedVision {
			return fmt.Errorf("torch: %s is %q: model %s reads no images, so it has no tower to train: set %q", key, trainedVision, path,
				frozenVision)
		}
	case spec.Head != engine.LogprobHead:
		return fmt.Errorf("torch: model %s reads images, which no critic or reward model here does: take a model of text", path)
	case sequenceOf(*spec) > 1:
		return fmt.Errorf("torch: trainer.ulysses_sequence_parallel_size %d: model %s reads images, whose tokens may lie in the parts of "+
			"two ranks: set 1", sequenceOf(*spec), path)
	case tensorOf(*spec) > 1:
		return fmt.Errorf("torch: trainer.megatron.tensor_model_parallel_size %d: model %s reads images, and ranks divide no tower: set 1",
			tensorOf(*spec), path)
	case spec.LoRA != nil && a.trainsVision(cfg, spec):
		return fmt.Errorf("torch: %s is %q: an adapter of %s trains the text part alone: set %q", key, trainedVision, path, frozenVision)
	}
	return nil
}

// checkImages refuses images that the model does not read, and their placeholders without an image. The policy may sample a
// placeholder, which stays a token.
func checkImages(x *trinity.Experience, cfg *model.Config, path string) error {
	v := cfg.Vision()
	if v == nil {
		if n := len(x.Images); n > 0 {
			return fmt.Errorf("model %s reads no images: experience %s has %d: take a model with a vision_config in config.json",
				path, x.ID, n)
		}
		return nil
	}
	at := 0 // of the images that are over
	for t, token := range x.Tokens {
		for at < len(x.Images) && t >= x.Images[at].At+x.Images[at].Len {
			at++
		}
		inside := at < len(x.Images) && t >= x.Images[at].At
		switch {
		case inside && token != v.Placeholder:
			return fmt.Errorf("experience %s: token %d is %d, and images[%d] has the token %d there", x.ID, t, token, at, v.Placeholder)
		case !inside && token == v.Placeholder && !x.Mask[t] && t < length(x):
			return fmt.Errorf("experience %s: token %d stands for an image (%d), and no image is there", x.ID, t, token)
		}
	}
	return nil
}

// keys returns the first n tokens of an experience, by which sequences are compared: an image has one number in place of its
// placeholders, so that a stem ends before another image.
func keys(x *trinity.Experience, n int) []int32 {
	if len(x.Images) == 0 {
		return x.Tokens[:n]
	}
	all := slices.Clone(x.Tokens[:n])
	for _, image := range x.Images {
		if image.At+image.Len > n {
			break
		}
		key := -1 - int32(crc32.ChecksumIEEE([]byte(image.Digest))>>1)
		for t := range image.Len {
			all[image.At+t] = key
		}
	}
	return all
}

// images returns the arrays of a micro-batch's images: each file once, and the places that sequences have it in. There are
// none without images.
func (b *batch) images(file func(digest string) ([]byte, error)) ([]safetensors.Entry, error) {
	var files []byte
	var sizes, grids, spans []int32
	number, grid := map[string]int32{}, map[string][3]int{}
	for k, i := range b.sent {
		x := b.all[i]
		for at, image := range x.Images {
			if image.At+image.Len > int(b.lengths[k]) { // the tokens up to the last trained one travel
				break
			}
			if _, known := number[image.Digest]; !known {
				data, err := fileOf(file, image.Digest)
				if err != nil {
					return nil, fmt.Errorf("torch: experience %s: images[%d]: %w", x.ID, at, err)
				}
				number[image.Digest], grid[image.Digest] = int32(len(sizes)), image.Grid
				files, sizes = append(files, data...), append(sizes, int32(len(data)))
				for _, n := range image.Grid {
					grids = append(grids, int32(n))
				}
			}
			if grid[image.Digest] != image.Grid {
				return nil, fmt.Errorf("torch: experience %s: images[%d] has a grid of %v patches, and the same image %v elsewhere",
					x.ID, at, image.Grid, grid[image.Digest])
			}
			spans = append(spans, int32(k), number[image.Digest], int32(image.At), int32(image.Len))
		}
	}
	if spans == nil {
		return nil, nil
	}
	all := []safetensors.Entry{
		safetensors.Bytes("images", files), safetensors.Int32s("image_bytes", sizes), safetensors.Int32s("image_grids", grids),
		safetensors.Int32s("spans", spans),
	}
	all[2].Shape, all[3].Shape = []int{len(sizes), 3}, []int{len(spans) / 4, 4}
	return all, nil
}

// fileOf returns the file of an image, which must be the one with that digest.
func fileOf(file func(digest string) ([]byte, error), digest string) ([]byte, error) {
	if file == nil {
		return nil, errors.New("this run keeps no images")
	}
	data, err := file(digest)
	if err == nil && blobs.Digest(data) != digest {
		err = fmt.Errorf("the file of image %s has the digest %s: somebody has changed it", digest, blobs.Digest(data))
	}
	return data, err
}
