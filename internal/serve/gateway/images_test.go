package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/model/vision"
)

// pads is the text of a token of an image, of which each image in the tests has 4 or more.
const pads = "<|image_pad|>"

// sighted is the renderer of a model that sees images, if sees is set.
func sighted(t *testing.T, sees bool) *renderer.Renderer {
	t.Helper()
	text, err := os.ReadFile("../../../model/renderer/testdata/tokenizer/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for i, token := range []string{pads, "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"} {
		all["added_tokens"] = append(all["added_tokens"].([]any), map[string]any{
			"id": 5000 + i, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
		})
	}
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": string(text), "tokenizer_config.json": `{"eos_token": "<|im_end|>"}`,
		"preprocessor_config.json": `{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 6272}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vision.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := renderer.Options{Template: "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}" +
		"{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|>" + pads + "<|vision_end|>{% else %}{{ p.text }}{% endif %}" +
		"{% endfor %}{% endif %}{% if m.tool_calls %}<tool_call>\n{{ m.tool_calls[0].function | tojson }}\n</tool_call>{% endif %}<|im_end|>\n" +
		"{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"}
	if sees {
		o.Images = renderer.ImagesOf(p, blobs.In(dir))
	}
	r, err := renderer.New(tok, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drawn is a picture as base64.
func drawn(t *testing.T, red uint8) string {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, 90, 60))
	for i := range picture.Bounds().Dx() * picture.Bounds().Dy() {
		picture.Set(i%90, i/90, color.RGBA{red, uint8(i), 0, 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// looker replies ok, and remembers what it was asked.
type looker struct {
	reply []int32
	mu    sync.Mutex
	asked []trinity.Prompt
}

func (l *looker) Sample(_ context.Context, prompt trinity.Prompt, _ trinity.SamplingParams) ([]trinity.Completion, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, prompt)
	return []trinity.Completion{{Tokens: l.reply, Logprobs: make([]float32, len(l.reply)), FinishReason: "stop"}}, nil
}

// openSighted opens the endpoint of a rollout whose model has this renderer.
func openSighted(t *testing.T, r *renderer.Renderer) (*endpoint, *looker) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	g := New("http://"+server.Listener.Addr().String(), "m", r, 6000, func(string) {})
	server.Config.Handler = g.Handler()
	server.Start()
	t.Cleanup(server.Close)
	l := &looker{reply: r.Tokenizer().Encode("ok<|im_end|>", false)}
	params := trinity.SamplingParams{Temperature: 1, MaxTokens: 8}
	e := &endpoint{t: t, model: &trinity.Model{Sampler: l, Renderer: r, MaxModelLen: 400, Params: params}}
	e.Endpoint = g.Open(t.Context(), e.model, trinity.EndpointOptions{})
	return e, l
}

// Images come in each dialect, from users and tools. The experience names the canonical image; what looks like an image is text.
func TestChatsWithImages(t *testing.T) {
	first, second := drawn(t, 10), drawn(t, 200)
	const ok = `{"role":"assistant","content":"ok"},`
	const says = "what <|vision_start|>" + pads + "?"
	url := func(data string) string {
		return `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}`
	}
	source := func(data string) string {
		return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	}
	item := func(data string) string {
		return `{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,` + data + `"}`
	}
	call := `{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"at\":\"` + pads + `\"}"}}`
	for _, c := range []struct{ path, one, two string }{
		{"/chat/completions", `{"messages":[{"role":"user","content":[` + url(first) + `,{"type":"text","text":"` + says + `"}]}]}`,
			`{"messages":[{"role":"user","content":[` + url(first) + `,{"type":"text","text":"` + says + `"}]},` + ok +
				`{"role":"assistant","content":"","tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"c1","content":[` + url(second) + `]}]}`},
		{"/messages", `{"messages":[{"role":"user","content":[` + source(first) + `,{"type":"text","text":"` + says + `"}]}]}`,
			`{"messages":[{"role":"user","content":[` + source(first) + `,{"type":"text","text":"` + says + `"}]},` + ok +
				`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"at":"` + pads + `"}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[` + source(second) + `]}]}]}`},
		{"/responses", `{"input":[{"role":"user","content":[` + item(first) + `,{"type":"input_text","text":"` + says + `"}]}]}`,
			`{"input":[{"role":"user","content":[` + item(first) + `,{"type":"input_text","text":"` + says + `"}]},` + ok +
				`{"role":"user","content":"go"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"at\":\"` + pads + `\"}"},` +
				`{"type":"function_call_output","call_id":"c1","output":[` + item(second) + `]}]}`},
	} {
		r := sighted(t, true)
		e, l := openSighted(t, r)
		for i, body := range []string{c.one, c.two} {
			if status, text := e.ask(c.path, body); status != http.StatusOK {
				t.Fatalf("%s: %d %s", c.path, status, text)
			}
			prompt := l.asked[i]
			if len(prompt.Images) != i+1 {
				t.Fatalf("%s: request %d has %d images", c.path, i, len(prompt.Images))
			}
			pad, _ := r.Tokenizer().TokenID(pads)
			expanded := 0
			for _, x := range prompt.Images {
				if x.Digest != blobs.Digest(x.PNG) || slices.ContainsFunc(prompt.Tokens[x.At:x.At+x.Len], func(t int32) bool { return t != pad }) {
					t.Errorf("%s: image %+v of a file with digest %s in %v", c.path, x.Image, blobs.Digest(x.PNG), prompt.Tokens)
				}
				expanded += x.Len
			}
			n := 0
			for _, token := range prompt.Tokens {
				if token == pad {
					n++
				}
			}
			if n != expanded {
				t.Errorf("%s: %d tokens of images outside of them", c.path, n-expanded)
			}
			if text := r.Decode(prompt.Tokens); !strings.Contains(text, says) || i > 0 && !strings.Contains(text, `"at": "`+pads) {
				t.Errorf("%s: the model reads %q", c.path, text)
			}
		}
		recorded, err := e.Close()
		if err != nil || len(recorded.Experiences) != 1 {
			t.Fatalf("%s: %d experiences, %v", c.path, len(recorded.Experiences), err)
		}
		x := recorded.Experiences[0]
		if err := x.Check(); err != nil || len(x.Images) != 2 || x.Images[0].Digest == x.Images[1].Digest || x.Images[0].At >= x.PromptLen ||
			x.Images[1].At < x.PromptLen || !slices.Equal(x.Images[:1], []trinity.Image{l.asked[0].Images[0].Image}) ||
			x.Images[1] != l.asked[1].Images[1].Image {
			t.Errorf("%s: %v, images %+v, prompt of %d tokens", c.path, err, x.Images, x.PromptLen)
		}
	}
}

// Chats that differ in their images alone are different chats.
func TestImagesTellChatsApart(t *testing.T) {
	e, l := openSighted(t, sighted(t, true))
	chat := func(data, more string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,` + data + `"}]}` + more + `]}`
	}
	const again = `,{"role":"assistant","content":"ok"},{"role":"user","content":"why?"}`
	for _, body := range []string{chat(drawn(t, 10), ""), chat(drawn(t, 200), again)} {
		if status, text := e.ask("/chat/completions", body); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	if status, text := e.ask("/sequence", chat(drawn(t, 10), again)); status != http.StatusOK {
		t.Error(status, text)
	}
	recorded, err := e.Close()
	if err != nil || len(recorded.Experiences) != 2 {
		t.Fatalf("%d experiences, %v, want 2", len(recorded.Experiences), err)
	}
	if woven := weave(recorded.Experiences); len(woven) != 2 {
		t.Errorf("%d sequences of the prompts %v", len(woven), l.asked)
	}
}

func TestImagesThatAreRefused(t *testing.T) {
	const network, blind = "a rollout must not depend on the network", "the model reads no images, or its processor is not known here"
	picture := "data:image/png;base64," + drawn(t, 1)
	for _, c := range []struct {
		url, want string
		sees      bool
	}{
		{"https://example.com/a.png", network, true},
		{"file:///etc/passwd", network, true},
		{"a.png", "want a data: URL", true},
		{"data:image/png,abc", "is not in base64", true},
		{"data:image/png;base64,%%%", "are no base64", true},
		{"data:image/png;base64,AAAA", "no PNG, JPEG, GIF or WebP", true},
		{picture[:len(picture)-40], "cannot be read", true},
		{picture, blind, false},
	} {
		e, _ := openSighted(t, sighted(t, c.sees))
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%q}}]}]}`, c.url)
		status, text := e.ask("/chat/completions", body)
		if status != http.StatusBadRequest || !strings.Contains(text, c.want) || !strings.Contains(text, "messages[0].content[0]: ") {
			t.Errorf("%.40s: %d %s, want %q", c.url, status, text, c.want)
		}
		status, text = e.ask("/responses", fmt.Sprintf(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":%q}]}]}`, c.url))
		if status != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%.40s: %d %s, want %q", c.url, status, text, c.want)
		}
	}
	e, _ := openSighted(t, sighted(t, true))
	const body = `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a/b"}}]}]}`
	status, text := e.ask("/messages", body)
	if status != http.StatusBadRequest || !strings.Contains(text, network) {
		t.Error(status, text)
	}
}

// A policy that samples the token of an image fails the rollout: no trainer could tell it from an image.
func TestSampledImages(t *testing.T) {
	r := sighted(t, true)
	e, l := openSighted(t, r)
	l.reply = r.Tokenizer().Encode("ok"+pads+"<|im_end|>", false)
	status, text := e.ask("/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	if status != http.StatusInternalServerError || !strings.Contains(text, "the reply looks like an image") {
		t.Error(status, text)
	}
	recorded, err := e.Close()
	if err != nil || len(recorded.Experiences) != 0 || recorded.CallFailure == nil || recorded.CallFailure.Kind != trinity.FailedModel {
		t.Errorf("%+v, %v", recorded, err)
	}
}
