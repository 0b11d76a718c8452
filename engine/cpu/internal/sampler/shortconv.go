package sampler

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// A layer with a convolution has no state that moves from token to token. It keeps the convolution's input B·x of each token at
// the token's slot in the pages, as attention keeps keys and values, and a row reads those of the last tokens before it. So
// whatever shares, copies, finds, evicts or takes back keys and values does the same to these inputs: groups with one prompt,
// prefixes, preempted sequences, refused drafts. A page begins with the inputs at the end of the page before it, whichever
// that is. The price is H numbers a token and layer, where the last inputs alone would do at places that nothing continues from.

// copyInputs copies the first tokens of a page to another.
func (m *network) copyInputs(layer int, dst, src int32, tokens int) {
	for i := range tokens {
		copy(m.inputs[layer].Row(int(dst)*pageTokens+i), m.inputs[layer].Row(int(src)*pageTokens+i))
	}
}

// taps fills a convolution, unless the layer has none.
func (l *loader) taps(conv *kernel.ShortConv, name string) error {
	if conv.Taps.Rows == 0 {
		return nil
	}
	weight, err := l.Tensor(name)
	if err != nil {
		return fmt.Errorf("sampler: tensor %s: %w", name, err)
	}
	if n := conv.Taps.Rows * conv.Taps.Cols; len(weight) != n {
		return fmt.Errorf("sampler: tensor %s has %d elements; the config demands %d", name, len(weight), n)
	}
	*conv = kernel.NewShortConv(conv.Taps.Data, weight, conv.Taps.Cols)
	return nil
}
