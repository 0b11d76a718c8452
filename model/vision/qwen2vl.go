package vision

import (
	"fmt"
	"math"
)

// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 keep the shape of an image: its sides become multiples
// of patch·merge pixels, and its area is within limits.
func init() { kinds["Qwen2VLImageProcessor"] = openQwen2VL }

func openQwen2VL(s *settings) (*Processor, error) {
	patch, err := s.side("patch_size", s.PatchSize, 14)
	if err != nil {
		return nil, err
	}
	merge, err := s.side("merge_size", s.MergeSize, 2)
	if err != nil {
		return nil, err
	}
	least, most := 56*56, 28*28*1280
	for _, from := range []*int{s.Size.Shortest, s.MinPixels} {
		if from != nil {
			least = *from
		}
	}
	for _, from := range []*int{s.Size.Longest, s.MaxPixels} {
		if from != nil {
			most = *from
		}
	}
	if patch > maxSide/merge || least < 1 || most < least || most < patch*merge*patch*merge {
		return nil, s.failed("patches of %d pixels, %d in a token, from %d to %d pixels: no image has this size", patch, merge, least, most)
	}
	return &Processor{
		Placeholder: "<|image_pad|>", token: "<|image_pad|>", filter: filters[3], patch: patch,
		Special:  []string{"<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"},
		Features: []string{"<|video_pad|>"},
		fit: func(width, height int) (int, int, error) {
			return fitArea(width, height, patch*merge, float64(least), float64(most))
		},
		tokens: func(rows, columns int) int { return rows * columns / (merge * merge) },
	}, nil
}

// fitArea returns the multiples of unit nearest to the sides of an image, scaled so that the area is
// between least and most.
func fitArea(width, height, unit int, least, most float64) (int, int, error) {
	const steepest = 200 // the processor refuses longer ones
	if max(width, height) > steepest*min(width, height) {
		return 0, 0, fmt.Errorf("the image has %d×%d pixels: the model's processor takes sides of 1:%d at most", width, height, steepest)
	}
	u, w, h := float64(unit), float64(width), float64(height)
	toWidth, toHeight := math.RoundToEven(w/u)*u, math.RoundToEven(h/u)*u
	switch area := toWidth * toHeight; {
	case area > most:
		shrink := math.Sqrt(w * h / most)
		toWidth, toHeight = max(u, math.Floor(w/shrink/u)*u), max(u, math.Floor(h/shrink/u)*u)
	case area < least:
		grow := math.Sqrt(least / (w * h))
		toWidth, toHeight = math.Ceil(w*grow/u)*u, math.Ceil(h*grow/u)*u
	}
	return int(toWidth), int(toHeight), nil
}
