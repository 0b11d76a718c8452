package vision

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

// settings are what a model's files say of its processor.
type settings struct {
	dir  string
	path string // of the file with the keys below

	Type             string `json:"image_processor_type"`
	DoResize         *bool  `json:"do_resize"`
	Resample         *int   `json:"resample"`
	PatchSize        *int   `json:"patch_size"`
	MergeSize        *int   `json:"merge_size"`
	MinPixels        *int   `json:"min_pixels"`
	MaxPixels        *int   `json:"max_pixels"`
	DoImageSplitting *bool  `json:"do_image_splitting"`
	DoPanAndScan     *bool  `json:"do_pan_and_scan"`
	MaxImageSize     edges  `json:"max_image_size"`
	Size             edges  `json:"size"`
}

// edges are a size in the words of the processor's type.
type edges struct {
	Shortest *int `json:"shortest_edge"`
	Longest  *int `json:"longest_edge"`
	Height   *int `json:"height"`
	Width    *int `json:"width"`
}

const (
	preprocessorFile = "preprocessor_config.json"
	processorFile    = "processor_config.json"
	modelFile        = "config.json"
	maxSettings      = 1 << 20 // bytes of a file
)

// kinds open the processors, by the name of their class in transformers without Fast or Pil.
var kinds = map[string]func(*settings) (*Processor, error){}

// Open returns the processor of a model's directory. The error names the processor of a model whose
// images this version cannot prepare.
func Open(dir string) (*Processor, error) {
	s, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	open := kinds[strings.TrimSuffix(strings.TrimSuffix(s.Type, "Fast"), "Pil")]
	if open == nil {
		return nil, s.failed("image_processor_type is %q; this version knows %s", s.Type, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if s.DoResize != nil && !*s.DoResize {
		return nil, s.failed("do_resize is false: models whose processor does not resize are not supported")
	}
	p, err := open(s)
	if err != nil {
		return nil, err
	}
	p.Features = append(p.Features, p.token)
	if s.Resample != nil {
		var ok bool
		if p.filter, ok = filters[*s.Resample]; !ok {
			return nil, s.failed("resample is %d: 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are supported", *s.Resample)
		}
	}
	return p, nil
}

// readSettings reads the file of the processor, or the part of processor_config.json that newer
// versions of transformers write in its place.
func readSettings(dir string) (*settings, error) {
	s := &settings{dir: dir, path: filepath.Join(dir, preprocessorFile)}
	err := readJSON(s.path, s)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	both := struct {
		Image *settings `json:"image_processor"`
	}{s}
	s.path = filepath.Join(dir, processorFile)
	err = readJSON(s.path, &both)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.Type == "" {
		err = fmt.Errorf("%s has no %s: the model reads no images", dir, preprocessorFile)
	}
	return s, err
}

func readJSON(path string, into any) error {
	text, err := durable.ReadRegular(path, maxSettings)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *settings) failed(format string, args ...any) error {
	return fmt.Errorf("%s: %w", s.path, fmt.Errorf(format, args...))
}

// maxSide bounds the numbers of pixels and patches that files give.
const maxSide = 1 << 20

// side returns the number of pixels at a key: first, or missing. It is an error if it is not in
// 1 … maxSide.
func (s *settings) side(key string, first *int, missing int) (int, error) {
	if first == nil {
		first = &missing
	}
	if *first < 1 || *first > maxSide {
		return 0, s.failed("%s is %d: expected 1 to %d", key, *first, maxSide)
	}
	return *first, nil
}

// tower is what config.json says of the part of a model that reads images.
type tower struct {
	Vision struct {
		PatchSize *int `json:"patch_size"`
	} `json:"vision_config"`
	ScaleFactor *int `json:"scale_factor"`
	ImageTokens *int `json:"mm_tokens_per_image"`
}

// readTower reads config.json. patch is the size of a patch if the file has none.
func (s *settings) readTower(patch int) (t tower, size int, err error) {
	path := filepath.Join(s.dir, modelFile)
	if err := readJSON(path, &t); err != nil {
		return t, 0, err
	}
	size, err = (&settings{path: path}).side("vision_config.patch_size", t.Vision.PatchSize, patch)
	return t, size, err
}

// agree returns an error if the processor's file gives an image another number of tokens than the
// model makes.
func (s *settings) agree(key string, tokens int) error {
	path := filepath.Join(s.dir, processorFile)
	var all map[string]json.RawMessage
	err := readJSON(path, &all)
	if errors.Is(err, fs.ErrNotExist) || err == nil && all[key] == nil {
		return nil
	}
	var n int
	if err == nil {
		err = json.Unmarshal(all[key], &n)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", path, key, err)
	}
	if n != tokens {
		return fmt.Errorf("%s: %s is %d, but the model makes %d tokens of an image (%s, %s)", path, key, n, tokens, s.path, modelFile)
	}
	return nil
}
