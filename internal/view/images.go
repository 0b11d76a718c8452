package view

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// maxImages bounds the bytes of the images in an exported page.
const maxImages = 32 << 20

// places returns the tokens of an answer that are shown, from one place to before another: of an image
// the first one alone.
func (a *Answer) places(from, to int) (all []int) {
	images := a.Shown()
	for t := from; t < to; t++ {
		for len(images) > 0 && t >= images[0].At+images[0].Len {
			images = images[1:]
		}
		if len(images) == 0 || t <= images[0].At {
			all = append(all, t)
		}
	}
	return all
}

// shownIn returns the images of a group's answers, each once, with the experience that has it first.
func shownIn(g Group) (all []trinity.Image, ids []string) {
	seen := map[string]bool{}
	for _, a := range g.Answers {
		for _, image := range a.Shown() {
			if !seen[image.Digest] {
				seen[image.Digest] = true
				all, ids = append(all, image), append(ids, a.ID)
			}
		}
	}
	return all, ids
}

// imageLabel names an image of a group for people.
func imageLabel(n int, image trinity.Image) string {
	return fmt.Sprintf("image %d, %s: %s", n+1, counted(image.Len, "token"), image.Digest)
}

// imagesIn returns a line for each image of a group.
func imagesIn(g Group) (lines []string) {
	images, _ := shownIn(g)
	for n, image := range images {
		lines = append(lines, imageLabel(n, image))
	}
	return lines
}

// exportedImage is an image with its file, so that the page needs nothing beside it.
type exportedImage struct {
	Source template.URL
	Label  string
}

// images reads the images of a group. Those that cannot be read, and those beyond the room, are lines.
func (p *Page) images(g Group, room *int) (all []exportedImage, left []string) {
	images, ids := shownIn(g)
	for n, image := range images {
		file, err := rundir.ReadImage(filepath.Dir(p.Trace), image.Digest)
		if err == nil && len(file) > *room {
			err = fmt.Errorf("the image %s is left out: a page has at most %d MB of images", image.Digest, maxImages>>20)
		}
		if err != nil {
			left = append(left, fmt.Sprintf("experience %s: %v", ids[n], err))
			continue
		}
		*room -= len(file)
		source := template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(file))
		all = append(all, exportedImage{source, imageLabel(n, image)})
	}
	return all, left
}
