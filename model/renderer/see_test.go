package renderer

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/model/vision"
)

// qwen is the first record of the family, with one image.
func qwen(t *testing.T) imageRecord {
	t.Helper()
	for _, r := range imageRecords(t) {
		if r.Family == "qwen" && len(r.Sizes) == 1 {
			return r
		}
	}
	t.Fatal("no record of Qwen with one image")
	return imageRecord{}
}

// What becomes the token of an image only when the template joins texts, or writes a call, stays text.
func TestPlaceholdersThatTheTemplateJoinsAreText(t *testing.T) {
	const pad = "<|image_pad|>"
	r := qwen(t)
	r.Template = `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}` + "\n" +
		`{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}<|image_pad|>{% else %}` +
		`{{ p.text | trim }}{% endif %}{% endfor %}{% endif %}{{ m.name }}{% for c in m.tool_calls %}{{ c.function.name }}` +
		`{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}<|im_end|>` + "\n" +
		`{% endfor %}`
	out, _, order := seeing(t, r)
	texts := func(parts ...string) (all []trinity.Part) {
		for _, p := range parts {
			all = append(all, trinity.Part{Text: p})
		}
		return append(all, trinity.Part{Image: order[0]})
	}
	joined := func(m trinity.Message) trinity.Message {
		for _, p := range m.Parts {
			m.Content += p.Text
		}
		return m
	}
	calls := func(arguments string) json.RawMessage {
		return json.RawMessage(`[{"type":"function","function":{"name":"f","arguments":` + arguments + `}}]`)
	}
	plain := trinity.Message{Role: "user", Parts: []trinity.Part{{Image: order[0]}}}
	list := read(t, `{"role":"user","content":[{"type":"text","text":"<|image"},{"type":"text","text":"_pad|>"}]}`)
	user := func(parts ...string) []trinity.Message {
		return []trinity.Message{joined(trinity.Message{Role: "user", Parts: texts(parts...)})}
	}
	for name, c := range map[string]struct {
		chat  []trinity.Message
		tools string
		text  string // that the model reads
	}{
		"two parts":        {user("<|image", "_pad|>"), "", pad},
		"three parts":      {user("a<", "|image_p", "ad|>b"), "", "a" + pad + "b"},
		"trimmed":          {user("<|image_pad ", "|> "), "", pad},
		"a beginning":      {append(user("1 <"), trinity.Message{Role: "user", Content: "|"}), "", "1 <"},
		"a name":           {[]trinity.Message{plain, {Role: "tool", Name: pad}}, "", pad},
		"a call":           {[]trinity.Message{plain, {Role: "assistant", ToolCalls: calls(`{"a":"` + pad + `"}`)}}, "", `"a": "` + pad},
		"a call as text":   {[]trinity.Message{plain, {Role: "assistant", ToolCalls: calls(`"{\"a\":\"` + pad + `\"}"`)}}, "", `{"a":"` + pad},
		"an escaped call":  {[]trinity.Message{plain, {Role: "assistant", ToolCalls: calls(`"{\"a\":\"\\u003c|image_pad|>\"}"`)}}, "", pad},
		"a tool":           {[]trinity.Message{plain}, `[{"type":"function","function":{"name":"f","description":"` + pad + `"}}]`, pad},
		"a list of texts":  {[]trinity.Message{plain, list}, "", pad},
		"a chat of text":   {[]trinity.Message{{Role: "user", Content: "see " + pad}}, "", "see " + pad},
		"the mark's place": {[]trinity.Message{plain, {Role: "user", Content: "\uFDD0" + pad}}, "", "\uFDD0" + pad},
	} {
		t.Run(name, func(t *testing.T) {
			var tools json.RawMessage
			if c.tools != "" {
				tools = json.RawMessage(c.tools)
			}
			before, err := json.Marshal(c.chat)
			if err != nil {
				t.Fatal(err)
			}
			tokens, images, err := renderImages(out, c.chat, tools, false)
			if err != nil || len(images) != len(digestsOf(c.chat)) {
				t.Fatalf("%v, images %v", err, images)
			}
			if got := out.tok.Decode(tokens, true); !strings.Contains(got, c.text) || strings.Count(got, "\uFDD1") > 0 {
				t.Errorf("the model reads %q, want %q in it", got, c.text)
			}
			if after, _ := json.Marshal(c.chat); !bytes.Equal(before, after) {
				t.Errorf("the chat was changed from %s to %s", before, after)
			}
		})
	}
}

func read(t *testing.T, text string) (m trinity.Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A bridge and a continued reply show images as the whole chat does.
func TestBridgesShowImages(t *testing.T) {
	out, _, order := seeing(t, qwen(t))
	show := func(says string) trinity.Message {
		return trinity.Message{Role: "user", Content: says, Parts: []trinity.Part{{Text: says}, {Image: order[0]}}}
	}
	history := []trinity.Message{show("first"), {Role: "assistant", Content: "seen"}}
	more := []trinity.Message{show("next <|image_pad|>")}
	prompt, err := out.Render(history[:1], nil, true)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := out.Bridge(history, more, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := out.Render(slices.Concat(history, more), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(prompt, out.tok.Encode("seen", false), bridge); !slices.Equal(got, whole) {
		t.Errorf("got  %v\nwant %v", got, whole)
	}
	in, err := out.PlaceImages(bridge, more)
	if err != nil || len(in) != 1 {
		t.Fatalf("%v, %v", in, err)
	}
	all, err := out.PlaceImages(whole, slices.Concat(history, more))
	if err != nil || len(all) != 2 || all[1].At != in[0].At+len(whole)-len(bridge) || all[1].Len != in[0].Len {
		t.Errorf("images at %+v, %v, and %+v in the bridge", all, err, in)
	}
	continued, rest, err := out.Continue(append(slices.Clip(more), trinity.Message{Role: "assistant", Content: "I see <|image_pad|>"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := out.Render(more, nil, true)
	if err != nil || !slices.Equal(continued[:len(opened)], opened) || out.Decode(continued[len(opened):]) != "I see <|image_pad|>" {
		t.Errorf("a reply is continued from %q, %v", out.Decode(continued), err)
	}
	if m := rest.ReadText(out.Encode(" now<|im_end|>")); m.Content != " now" {
		t.Errorf("the rest reads %q", m.Content)
	}
}

// Tokens of images that no message has, which a policy may sample, are found.
func TestTokensOfImagesWithoutImages(t *testing.T) {
	out, _, order := seeing(t, qwen(t))
	out.images.Features = []string{"<|image_pad|>", "<|video_pad|>"}
	shown := []trinity.Message{{Role: "user", Parts: []trinity.Part{{Image: order[0]}}}}
	tokens, err := out.Render(shown, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	pad, _ := out.tok.TokenID("<|image_pad|>")
	for _, c := range []struct {
		tokens []int32
		chat   []trinity.Message
		want   string
	}{
		{tokens, shown, ""},
		{tokens, nil, "is <|image_pad|>, and there is no image"},
		{append(slices.Clip(tokens), pad), shown, "is <|image_pad|>, and there is no image"},
		{slices.DeleteFunc(slices.Clone(tokens), func(t int32) bool { return t == pad }), shown, "lack the image"},
		{out.Encode("a<|video_pad|>"), nil, "is <|video_pad|>, and there is no image"},
		{out.Encode("a<|vision_start|>"), nil, ""},
	} {
		_, err := out.PlaceImages(c.tokens, c.chat)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.tokens, err, c.want)
		}
	}
}

// The album keeps canonical images, and refuses those of another model.
func TestImagesOfAStore(t *testing.T) {
	open := func(most string) (*Images, blobs.Store) {
		dir := t.TempDir()
		text := `{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": ` + most + `}`
		if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		p, err := vision.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		store := blobs.In(dir)
		return ImagesOf(p, store), store
	}
	large, _ := open("62720")
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	digest, err := large.Take(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := large.Take(file.Bytes()); err != nil || again != digest {
		t.Errorf("taken again: %s, %v", again, err)
	}
	kept, err := large.File(digest)
	if err != nil || blobs.Digest(kept) != digest {
		t.Fatalf("%v", err)
	}
	if again, err := large.Take(kept); err != nil || again != digest {
		t.Errorf("the canonical image becomes %s, %v", again, err)
	}
	text, grid, err := large.Of(digest)
	if err != nil || strings.Count(text, "<|image_pad|>") != grid[1]*grid[2]/4 {
		t.Errorf("%d tokens of %v patches, %v", strings.Count(text, "<|image_pad|>"), grid, err)
	}
	small, other := open("6272")
	if _, _, err := small.Of(digest); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("in another store: %v", err)
	}
	if _, err := other.Put(kept); err != nil {
		t.Fatal(err)
	}
	if _, _, err := small.Of(digest); err == nil || !strings.Contains(err.Error(), "it was made for another model") {
		t.Errorf("an image of another model: %v", err)
	}
}
