package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math/rand/v2"
)

// paints are the colours of shapes. The last of the palette is the paper.
var (
	paints  = []string{"red", "green", "blue"}
	palette = color.Palette{color.RGBA{220, 30, 30, 255}, color.RGBA{20, 160, 40, 255}, color.RGBA{30, 60, 220, 255}, color.White}
)

// colours are drawings of a square and a disc, and the colour of the square.
func colours(out map[string][]row) {
	rng := rand.New(rand.NewPCG(11, 0))
	out["vlm_colours/data/eval.jsonl"] = drawings(rng, 60, "answer")
	out["vlm_colours/data/train.jsonl"] = drawings(rng, 300, "answer")
	out["vlm_colours/data/sft.jsonl"] = drawings(rng, 600, "response")
}

func drawings(rng *rand.Rand, n int, key string) (rows []row) {
	for range n {
		square := rng.IntN(len(paints))
		disc := (square + 1 + rng.IntN(len(paints)-1)) % len(paints)
		rows = append(rows, row{"question": "<image>square?", key: paints[square], "image": drawing(rng, square, disc)})
	}
	return rows
}

// drawing returns a drawing as a URL: a square in one half, a disc in the other.
func drawing(rng *rand.Rand, square, disc int) string {
	const side, half, wide = 28, 14, 10
	img := image.NewPaletted(image.Rect(0, 0, side, side), palette)
	for i := range img.Pix {
		img.Pix[i] = uint8(len(palette) - 1)
	}
	left := rng.IntN(2)
	x, y := half*left+rng.IntN(half-wide+1), rng.IntN(side-wide+1)
	u, v := half*(1-left)+rng.IntN(half-wide+1), rng.IntN(side-wide+1)
	for i := range wide {
		for j := range wide {
			img.SetColorIndex(x+i, y+j, uint8(square))
			if dx, dy := 2*i-wide+1, 2*j-wide+1; dx*dx+dy*dy <= wide*wide {
				img.SetColorIndex(u+i, v+j, uint8(disc))
			}
		}
	}
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&file, img); err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("data:image/png;base64,%s", base64.StdEncoding.EncodeToString(file.Bytes()))
}
