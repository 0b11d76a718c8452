package renderer

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model/vision"
)

// imageRecord is a chat with images as transformers' processors tokenize it: testdata/record_images.py.
type imageRecord struct {
	Family, Template string
	Added            [][2]any // ids and texts of the tokens of images
	Chat             []struct {
		Role    string
		Content json.RawMessage
	}
	Sizes  [][2]int
	Tokens []int32
}

// processors are the files of a model of each family.
var processors = map[string]map[string]string{
	"qwen": {"preprocessor_config.json": `{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 6272}`},
	"idefics": {"preprocessor_config.json": `{"image_processor_type": "Idefics3ImageProcessor", "do_image_splitting": false,
		"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}}`,
		"config.json": `{"vision_config": {"patch_size": 4}, "scale_factor": 4}`},
	"gemma": {"preprocessor_config.json": `{"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 56, "width": 56}}`,
		"config.json": `{"vision_config": {"patch_size": 8}, "mm_tokens_per_image": 49}`},
}

// seeing opens the renderer of a record, and returns its images by digest, in the order of the chat.
func seeing(t *testing.T, r imageRecord) (*Renderer, map[string]*vision.Image, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range processors[r.Family] {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p, err := vision.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	images, order := map[string]*vision.Image{}, []string{}
	for _, size := range r.Sizes {
		var file bytes.Buffer
		if err := png.Encode(&file, image.NewRGBA(image.Rect(0, 0, size[0], size[1]))); err != nil {
			t.Fatal(err)
		}
		made, err := p.Canonical(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		images[made.Digest], order = made, append(order, made.Digest)
	}
	seen := &Images{Placeholder: p.Placeholder, Special: p.Special, Of: func(digest string) (string, [3]int, error) {
		made := images[digest]
		if made == nil {
			return "", [3]int{}, errors.New("it is missing")
		}
		return made.Text, made.Grid, nil
	}}
	out, err := New(withTokens(t, r.Added), Options{Template: r.Template, Images: seen})
	if err != nil {
		t.Fatal(err)
	}
	return out, images, order
}

// withTokens is the tokenizer of the tests with further special tokens.
func withTokens(t *testing.T, added [][2]any) *tokenizer.Tokenizer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "tokenizer", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	tokens := all["added_tokens"].([]any)
	for _, a := range added {
		tokens = append(tokens, map[string]any{"id": a[0], "content": a[1], "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": true})
	}
	all["added_tokens"] = tokens
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// chatOf returns the chat of a record. order has the digests of its images.
func chatOf(t *testing.T, r imageRecord, order []string) (chat []trinity.Message) {
	t.Helper()
	for _, m := range r.Chat {
		out := trinity.Message{Role: m.Role}
		var parts []struct{ Type, Text string }
		if json.Unmarshal(m.Content, &out.Content) != nil {
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range parts {
			if p.Type == "image" {
				out.Parts, order = append(out.Parts, trinity.Part{Image: order[0]}), order[1:]
				continue
			}
			out.Parts, out.Content = append(out.Parts, trinity.Part{Text: p.Text}), out.Content+p.Text
		}
		chat = append(chat, out)
	}
	return chat
}

// renderImages renders a chat, and finds its images in the tokens.
func renderImages(r *Renderer, messages []trinity.Message, tools json.RawMessage, generate bool) (
	tokens []int32, images []trinity.Image, err error,
) {
	if tokens, err = r.Render(messages, tools, generate); err != nil {
		return nil, nil, err
	}
	images, err = r.PlaceImages(tokens, messages)
	return tokens, images, err
}

func imageRecords(t *testing.T) (records []imageRecord) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "images.json"))
	if err == nil {
		err = json.Unmarshal(text, &records)
	}
	if err != nil || len(records) != 12 {
		t.Fatal(len(records), err)
	}
	return records
}

func TestChatsWithImagesAreThoseOfTransformers(t *testing.T) {
	first := map[string]string{"qwen": "<|image_pad|>", "idefics": "<fake_token_around_image>", "gemma": "<start_of_image>"}
	last := map[string]string{"qwen": "<|image_pad|>", "idefics": "<fake_token_around_image>", "gemma": "<end_of_image>"}
	around := map[string]int{"idefics": 3, "gemma": 2}
	for i, r := range imageRecords(t) {
		out, images, order := seeing(t, r)
		chat := chatOf(t, r, order)
		tokens, got, err := renderImages(out, chat, nil, true)
		if err != nil {
			t.Errorf("%d, %s: %v", i, r.Family, err)
			continue
		}
		if !slices.Equal(tokens, r.Tokens) {
			t.Errorf("%d, %s: got  %v\nwant %v", i, r.Family, tokens, r.Tokens)
		}
		e := &trinity.Experience{Tokens: tokens, Mask: make([]bool, len(tokens)), Images: got}
		if err := e.Check(); err != nil || len(got) != len(order) {
			t.Errorf("%d, %s: %d images, %v, want %d", i, r.Family, len(got), err, len(order))
		}
		for j, g := range got {
			want := images[order[j]]
			if g.Digest != want.Digest || g.Grid != want.Grid || g.Len != want.Tokens+around[r.Family] ||
				out.tok.Token(tokens[g.At]) != first[r.Family] || out.tok.Token(tokens[g.At+g.Len-1]) != last[r.Family] {
				t.Errorf("%d, %s: image %d is %+v from %q to %q, want %d tokens", i, r.Family, j, g, out.tok.Token(tokens[g.At]),
					out.tok.Token(tokens[g.At+g.Len-1]), want.Tokens+around[r.Family])
			}
		}
	}
}

// A user who writes a placeholder, also beside an image, does not show another image.
func TestPlaceholdersInMessagesAreText(t *testing.T) {
	for _, r := range imageRecords(t) {
		if len(r.Sizes) != 1 {
			continue
		}
		out, _, order := seeing(t, r)
		words := "a" + strings.Join(out.images.Special, "") + "b" + out.images.Placeholder
		chat := []trinity.Message{{Role: "user", Content: words, Parts: []trinity.Part{{Text: words}, {Image: order[0]}}}}
		tokens, images, err := renderImages(out, chat, nil, true)
		if err != nil || len(images) != 1 {
			t.Fatalf("%s: %v, %v", r.Family, images, err)
		}
		if got := out.tok.Decode(tokens[:images[0].At], true); !strings.Contains(got, words) {
			t.Errorf("%s: the model reads %q before the image, want %q in it", r.Family, got, words)
		}
		if whole := chat[0].Content + chat[0].Parts[0].Text; whole != words+words {
			t.Errorf("%s: the message was changed to %q", r.Family, whole)
		}
	}
}

// Templates see an image as transformers shows it: a part with a type and nothing else.
func TestTemplatesSeeTheTypeOfAnImage(t *testing.T) {
	r := imageRecords(t)[0]
	r.Template = `{% for m in messages %}{% for p in m.content %}{{ p.text }}{% for key in p %}({{ key }}){% endfor %}` +
		`{% endfor %}{% endfor %}<|image_pad|>`
	out, _, order := seeing(t, r)
	tokens, _, err := renderImages(out, []trinity.Message{{Role: "user", Parts: []trinity.Part{{Image: order[0]}}}}, nil, true)
	if got := out.Decode(tokens); err != nil || got != "(type)" {
		t.Errorf("the template writes %q, %v, want (type)", got, err)
	}
}

func TestChatsWithWrongImagesAreErrors(t *testing.T) {
	r := imageRecords(t)[0]
	out, _, order := seeing(t, r)
	shown := []trinity.Message{{Role: "user", Parts: []trinity.Part{{Image: order[0]}}}}
	wrong := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	missing := "sha256:" + strings.Repeat("0", 64)
	_, _, err := renderImages(out, []trinity.Message{{Role: "user", Parts: []trinity.Part{{Image: missing}}}}, nil, true)
	wrong(err, missing+": it is missing")
	replaced := trinity.Message{Role: "user", Content: "new", Parts: []trinity.Part{{Text: "old"}, {Image: order[0]}}}
	_, _, err = renderImages(out, []trinity.Message{replaced}, nil, true)
	wrong(err, "messages[0]: the text of a message of the user with images was replaced")
	_, _, err = out.RenderTraining(append(shown, trinity.Message{Role: "assistant", Content: "a"}), nil, []bool{false, true})
	wrong(err, "messages[0] has an image")

	blind := newRenderer(t, loadTokenizer(t), r.Template, nil)
	_, _, err = renderImages(blind, shown, nil, true)
	wrong(err, "messages[0] has an image: the model reads no images")
	for template, want := range map[string]string{
		"{% for m in messages %}{{ m.content }}{% endfor %}": "shows no images of the user",
		"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}" +
			"{% endif %}{% endfor %}": "0 times for 1 images",
	} {
		if blind, err = New(out.tok, Options{Template: template, Images: out.images}); err != nil {
			t.Fatal(err)
		}
		_, _, err = renderImages(blind, shown, nil, true)
		wrong(err, want)
	}
}
