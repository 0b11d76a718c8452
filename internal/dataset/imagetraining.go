package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// renderTraining is [trinity.Renderer.RenderTraining], also for chats with images. All images come before the
// first message that training learns: the renderer writes what is before it as a prompt.
func renderTraining(r trinity.Renderer, chat []trinity.Message, tools json.RawMessage, learn []bool) (
	tokens []int32, mask []bool, images []trinity.Image, err error,
) {
	shows := func(m trinity.Message) bool { return m.Parts != nil }
	if !slices.ContainsFunc(chat, shows) {
		tokens, mask, err = r.RenderTraining(chat, tools, learn)
		return tokens, mask, nil, err
	}
	sees, ok := r.(trinity.ImageRenderer)
	if !ok {
		return nil, nil, nil, errors.New("the row has images, and the model sees none")
	}
	first := slices.Index(learn, true)
	if i := slices.IndexFunc(chat[first:], shows); i >= 0 {
		return nil, nil, nil, fmt.Errorf("messages[%d] has an image, and messages[%d] is learnt: images come before all that is learnt",
			first+i, first)
	}
	blind := slices.Clone(chat)
	for i := range blind {
		blind[i].Parts = nil
	}
	if tokens, mask, err = r.RenderTraining(blind, tools, learn); err != nil {
		return nil, nil, nil, err
	}
	opening, err := r.Render(blind[:first], tools, true)
	if err != nil {
		return nil, nil, nil, err
	}
	n := promptLen(mask)
	if !slices.Equal(opening, tokens[:n]) {
		return nil, nil, nil, errors.New("the chat template opens a reply otherwise in a prompt than in a chat, and then no chat with images " +
			"can be learnt")
	}
	prompt, err := r.Render(chat[:first], tools, true)
	if err != nil {
		return nil, nil, nil, err
	}
	if images, err = sees.PlaceImages(prompt, chat[:first]); err != nil {
		return nil, nil, nil, err
	}
	return slices.Concat(prompt, tokens[n:]), slices.Concat(make([]bool, len(prompt)), mask[n:]), images, nil
}
