package vision

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is what testdata/record.py has written with Pillow and transformers.
type recorded struct {
	WebPs   []recordedWebP
	Resized []struct {
		Filter   int
		From, To [2]int
		SHA256   string
		First    []int
	}
	Fitted []struct {
		Config json.RawMessage
		Size   [2]int
		Grid   *[3]int // nil if the processor refuses the image
		Tokens int
	}
	Squares []struct {
		Config      json.RawMessage
		Size, Shape [2]int
		SHA256      string
	}
	Files []struct {
		Name    string
		File    []byte
		Size    [2]int
		Corners [4][3]int
	}
}

// recordedWebP is a WebP file, and what Pillow reads in it.
type recordedWebP struct {
	Name string
	File []byte
	Size [2]int
	RGBA []byte
}

func record(t testing.TB) (all recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/vision.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// made is the image of record.py's formula.
func made(width, height int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := img.Pix[img.PixOffset(x, y):]
			for c := range 3 {
				h := x/5*73856093 ^ y/7*19349663 ^ c*83492791
				p[c] = byte((h^h>>7)%251 + (x+y)%5)
			}
			p[3] = 255
		}
	}
	return img
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// digestOf returns the digest of the colours of an image, as record.py computes it.
func digestOf(img image.Image) string {
	var all []byte
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			all = append(all, c.R, c.G, c.B)
		}
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// model writes a model's directory. files are pairs of a name and a content.
func model(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tiny is a config.json with 16 patches in a line of 64 pixels.
const tiny = `{"vision_config": {"patch_size": 4}, "scale_factor": 4, "mm_tokens_per_image": 49}`

func open(t testing.TB, files ...string) *Processor {
	t.Helper()
	p, err := Open(model(t, files...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestResizeGivesTheBytesOfPillow(t *testing.T) {
	for _, r := range record(t).Resized {
		got := resize(made(r.From[0], r.From[1]), r.To[0], r.To[1], filters[r.Filter])
		if digestOf(got) != r.SHA256 {
			t.Errorf("filter %d, %v to %v: other bytes than Pillow's; the first are %v, want %v",
				r.Filter, r.From, r.To, got.Pix[:12], r.First[:9])
		}
	}
}

func TestQwenSizesAreThoseOfTransformers(t *testing.T) {
	for _, r := range record(t).Fitted {
		p := open(t, preprocessorFile, string(r.Config))
		got, err := p.Canonical(encoded(t, made(r.Size[0], r.Size[1])))
		if r.Grid == nil {
			if err == nil {
				t.Errorf("%s, %v: got a grid of %v, want an error", r.Config, r.Size, got.Grid)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s, %v: %v, want a grid of %v", r.Config, r.Size, err, *r.Grid)
			continue
		}
		if got.Grid != *r.Grid || got.Tokens != r.Tokens || got.Text != strings.Repeat("<|image_pad|>", r.Tokens) {
			t.Errorf("%s, %v: got a grid of %v and %d tokens, want %v and %d", r.Config, r.Size, got.Grid, got.Tokens, *r.Grid, r.Tokens)
		}
	}
}

func TestSquaresHaveThePixelsOfTransformers(t *testing.T) {
	want := map[string]Image{
		"SmolVLMImageProcessor": {Grid: [3]int{1, 16, 16}, Tokens: 16,
			Text: "<fake_token_around_image><global-img>" + strings.Repeat("<image>", 16) + "<fake_token_around_image>"},
		"Gemma3ImageProcessor": {Grid: [3]int{1, 14, 14}, Tokens: 49,
			Text: "\n\n<start_of_image>" + strings.Repeat("<image_soft_token>", 49) + "<end_of_image>\n\n"},
	}
	for _, r := range record(t).Squares {
		var config struct {
			Type string `json:"image_processor_type"`
		}
		if err := json.Unmarshal(r.Config, &config); err != nil {
			t.Fatal(err)
		}
		p := open(t, preprocessorFile, string(r.Config), modelFile, tiny)
		got, err := p.Canonical(encoded(t, made(r.Size[0], r.Size[1])))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(got.PNG))
		if err != nil {
			t.Fatal(err)
		}
		if size := img.Bounds().Size(); size != image.Pt(r.Shape[0], r.Shape[1]) || digestOf(img) != r.SHA256 {
			t.Errorf("%s of %v: got other pixels, %v of them", config.Type, r.Size, size)
		}
		if w := want[config.Type]; got.Grid != w.Grid || got.Tokens != w.Tokens || got.Text != w.Text {
			t.Errorf("%s: got %v, %d tokens, %q", config.Type, got.Grid, got.Tokens, got.Text)
		}
	}
}

// A canonical image has the size that the model's processor would choose, so nothing resizes it again.
func TestCanonicalImageIsItsOwn(t *testing.T) {
	for name, p := range processors(t) {
		first, err := p.Canonical(encoded(t, made(133, 91)))
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Canonical(first.PNG)
		if err != nil {
			t.Fatal(err)
		}
		if again.Digest != first.Digest || !bytes.Equal(again.PNG, first.PNG) || len(first.Digest) != len("sha256:")+64 {
			t.Errorf("%s: %s became %s", name, first.Digest, again.Digest)
		}
	}
}

func processors(t testing.TB) map[string]*Processor {
	return map[string]*Processor{
		"qwen": open(t, preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessorFast", "max_pixels": 50176}`),
		"smolvlm": open(t, preprocessorFile, `{"image_processor_type": "Idefics3ImageProcessor", "do_image_splitting": false,
			"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}}`, modelFile, tiny, processorFile, `{"image_seq_len": 16}`),
		"gemma": open(t, processorFile, `{"image_seq_length": 49, "image_processor": {"image_processor_type": "Gemma3ImageProcessor",
			"size": {"height": 56, "width": 56}}}`, modelFile, tiny),
	}
}

func TestFilesAreReadAsPillowReadsThem(t *testing.T) {
	for _, f := range record(t).Files {
		img, err := decode(f.File)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		w, h := img.Rect.Dx(), img.Rect.Dy()
		if w != f.Size[0] || h != f.Size[1] {
			t.Errorf("%s: %d×%d pixels, want %v", f.Name, w, h, f.Size)
			continue
		}
		near := 12 // JPEG decoders round otherwise, and Pillow converts CMYK in its own way
		if !strings.Contains(f.Name, "JPEG") {
			near = 1
		}
		for i, at := range []image.Point{{1, 1}, {w - 2, 1}, {1, h - 2}, {w - 2, h - 2}} {
			c := img.RGBAAt(at.X, at.Y)
			for j, got := range []byte{c.R, c.G, c.B} {
				if d := int(got) - f.Corners[i][j]; d > near || d < -near {
					t.Errorf("%s: the pixel at %v is %v, want %v", f.Name, at, c, f.Corners[i])
					break
				}
			}
		}
	}
}

func TestBadImagesAreNamed(t *testing.T) {
	whole := encoded(t, made(40, 40))
	var jpegFile []byte
	for _, f := range record(t).Files {
		if f.Name == "progressive JPEG" {
			jpegFile = f.File
		}
	}
	bomb := bytes.Clone(whole)
	copy(bomb[16:24], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // 65536×65536 in IHDR
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	p := processors(t)["qwen"]
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":        {nil, "no PNG, JPEG, GIF or WebP image"},
		"text":           {[]byte("hello"), "no PNG, JPEG, GIF or WebP image"},
		"truncated PNG":  {whole[:len(whole)/2], "not enough pixel data"},
		"truncated JPEG": {jpegFile[:len(jpegFile)-60], "unexpected EOF"},
		"bomb":           {bomb, "65536×65536"},
		"sound":          {[]byte("RIFF\x00\x00\x00\x00WAVEfmt "), "no PNG, JPEG, GIF or WebP image"},
		"large":          {make([]byte, maxBytes+1), "at most 20971520"},
		"long":           {encoded(t, made(1, 9000)), "1×9000"},
	} {
		if _, err := p.Canonical(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	for name, p := range processors(t) {
		if name == "qwen" {
			continue
		}
		if _, err := p.Canonical(encoded(t, made(1, 9000))); err != nil {
			t.Errorf("%s: %v", name, err) // it sees a square
		}
	}
}

func TestProcessorsThatAreNotSupportedAreNamed(t *testing.T) {
	const smol = `"image_processor_type": "SmolVLMImageProcessor"`
	for want, files := range map[string][]string{
		"reads no images":                   {},
		`image_processor_type is "Siglip2"`: {preprocessorFile, `{"image_processor_type": "Siglip2"}`},
		"set do_image_splitting to false and size to {\"longest_edge\": 512}": {preprocessorFile,
			`{` + smol + `, "max_image_size": {"longest_edge": 512}}`},
		"so that an image is one square": {preprocessorFile, `{` + smol + `, "do_image_splitting": false,
			"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}`},
		"image_seq_len is 64, but the model makes 16": {preprocessorFile, `{` + smol + `, "do_image_splitting": false,
			"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}}`, modelFile, tiny, processorFile, `{"image_seq_len": 64}`},
		"do_pan_and_scan":  {preprocessorFile, `{"image_processor_type": "Gemma3ImageProcessor", "do_pan_and_scan": true}`},
		"do_resize":        {preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessor", "do_resize": false}`},
		"resample is 0":    {preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessor", "resample": 0}`},
		"patch_size is 0":  {preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 0}`},
		"no image has":     {preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessor", "max_pixels": 3}`},
		"cannot unmarshal": {preprocessorFile, `{"image_processor_type": "Qwen2VLImageProcessor", "max_pixels": "many"}`},
	} {
		dir := model(t, files...)
		_, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %q and the directory", err, want)
		}
	}
}

// Whatever bytes a row has, they are an error or an image of the size that the model wants.
func FuzzCanonical(f *testing.F) {
	for _, r := range record(f).Files {
		f.Add(r.File)
	}
	for _, r := range record(f).WebPs {
		f.Add(r.File)
	}
	f.Add(encoded(f, made(40, 3)))
	all := processors(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<14 {
			return
		}
		format, err := formatOf(file)
		if err != nil {
			return
		}
		if size, err := format.size(bytes.NewReader(file)); err == nil && size.Width > 1024 && size.Height > 1024 {
			return // it takes long
		}
		for name, p := range all {
			first, err := p.Canonical(file)
			if err != nil {
				continue
			}
			again, err := p.Canonical(first.PNG)
			if err != nil || again.Digest != first.Digest {
				t.Errorf("%s: a canonical image is no longer one: %v", name, err)
			}
		}
	})
}
