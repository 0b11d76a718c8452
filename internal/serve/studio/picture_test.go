package studio_test

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// palettePNG makes a picture small: it keeps its most frequent colours that differ from one another.
func palettePNG(data []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	const colours = 128
	count := map[color.Color]int{}
	box := picture.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	var most color.Palette
	for _, c := range slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) }) {
		if len(most) < colours && (len(most) == 0 || distance(c, most.Convert(c)) > 6) {
			most = append(most, c)
		}
	}
	out := image.NewPaletted(box, most)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			out.Set(x, y, picture.At(x, y))
		}
	}
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out)
	return b.Bytes(), err
}

// distance of two colours: the largest difference of their parts, of 255.
func distance(a, b color.Color) int {
	r, g, blue, _ := a.RGBA()
	r2, g2, blue2, _ := b.RGBA()
	off := func(x, y uint32) int { return int(max(x, y)-min(x, y)) >> 8 }
	return max(off(r, r2), off(g, g2), off(blue, blue2))
}
