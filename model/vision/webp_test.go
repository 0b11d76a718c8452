package vision

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"strings"
	"testing"
)

// webps are the files that testdata/record.py has written, by name.
func webps(t testing.TB) map[string]recordedWebP {
	all := map[string]recordedWebP{}
	for _, f := range record(t).WebPs {
		all[f.Name] = f
	}
	return all
}

// All pixels of a WebP file are those of Pillow, lossy ones too.
func TestWebPHasTheBytesOfPillow(t *testing.T) {
	all := webps(t)
	if len(all) != 10 {
		t.Fatalf("%d files are recorded", len(all))
	}
	for name, f := range all {
		if name == "film" {
			continue
		}
		img, err := decodeWebP(bytes.NewReader(f.File))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if size := img.Bounds().Size(); size != image.Pt(f.Size[0], f.Size[1]) {
			t.Errorf("%s has %v pixels, want %v", name, size, f.Size)
			continue
		}
		differ, most := 0, 0
		for i := range len(f.RGBA) / 4 {
			c := color.NRGBAModel.Convert(img.At(i%f.Size[0], i/f.Size[0])).(color.NRGBA)
			for k, got := range []byte{c.R, c.G, c.B, c.A} {
				if d := max(int(got)-int(f.RGBA[4*i+k]), int(f.RGBA[4*i+k])-int(got)); d > 0 {
					differ, most = differ+1, max(most, d)
				}
			}
		}
		if differ > 0 {
			t.Errorf("%s: %d of %d values differ, by %d at most", name, differ, len(f.RGBA), most)
		}
	}
}

func TestBadWebPIsNamed(t *testing.T) {
	all := webps(t)
	lossy := all["even"].File
	p := processors(t)["smolvlm"]
	chunk := func(name string, body []byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(body))), body...)
	}
	file := func(chunks ...[]byte) []byte {
		body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
		return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
	}
	big := bytes.Clone(lossy)
	binary.LittleEndian.PutUint32(big[26:], 16383|16383<<16) // width and height of the frame
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"film":      {all["film"].File, "animated"},
		"truncated": {lossy[:len(lossy)/2], "unexpected EOF"},
		"bomb":      {big, "16383×16383"},
		// A small canvas hides a large frame.
		"hidden bomb": {file(chunk("VP8X", make([]byte, 10)), big[12:]), "its canvas has 1×1 pixels and its image 16383×16383"},
		"no pixels":   {file(chunk("VP8X", make([]byte, 10))), "no chunk of pixels"},
		"two images":  {file(lossy[12:], all["lossless"].File[12:]), "or two of them"},
		"empty":       {file(), "no chunk of pixels"},
		"no header":   {file(chunk("VP8L", nil)), "cannot be read"},
	} {
		_, err := p.Canonical(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.want)
		}
	}
}

// Whatever a WebP file has, its pixels are as many as its header says, which bounds their memory.
func FuzzWebP(f *testing.F) {
	for _, r := range webps(f) {
		f.Add(r.File)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		size, err := webpSize(bytes.NewReader(file))
		if err != nil || size.Width*size.Height > 1<<14 {
			return
		}
		exifOfWebP(file)
		img, err := decodeWebP(bytes.NewReader(file))
		if err == nil && img.Bounds() != image.Rect(0, 0, size.Width, size.Height) {
			t.Errorf("the image is %v, and the header says %d×%d", img.Bounds(), size.Width, size.Height)
		}
	})
}
