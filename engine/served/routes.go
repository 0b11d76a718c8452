package served

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// router says which experts a run wants of its servers. The zero value wants none.
type router struct {
	experience.Routes
	layers []bool // which layers have experts
}

// routerOf returns what a run wants of the experts of a model.
func routerOf(cfg *model.Config, wanted bool) (r router, err error) {
	if !wanted {
		return r, nil
	}
	if err := cfg.CheckRouter(); err != nil {
		return r, err
	}
	return router{cfg.Mixture.Routes(), cfg.Mixture.Layers}, nil
}

// known returns the number of a query's tokens whose experts an earlier reply had.
func (r *router) known(q *query) int {
	if r.Layers == 0 {
		return 0
	}
	return len(q.experts) / r.Token()
}

// of returns the experts of a query's prompt and of its answer.
func (r *router) of(q *query, a *answer) ([]byte, error) {
	if r.Layers == 0 {
		return nil, nil
	}
	if a.routed == "" {
		return nil, errors.New("it returned no experts (routed_experts): start it with --enable-return-routed-experts")
	}
	data, err := base64.StdEncoding.DecodeString(a.routed)
	if err != nil {
		return nil, fmt.Errorf("its experts (routed_experts) are not base64: %w", err)
	}
	places := len(q.prompt) + len(a.tokens) - 1 - r.known(q)
	var numbers []int32
	if a.bare {
		numbers, err = r.readBare(data, places)
	} else {
		numbers, err = r.readNPY(data, places)
	}
	if err != nil {
		return nil, fmt.Errorf("its experts (routed_experts): %w", err)
	}
	all, perLayer := slices.Clone(q.experts), r.PerToken
	for at := 0; at < len(numbers); at += perLayer {
		if layer := at / perLayer % (len(numbers) / perLayer / places); len(numbers) > places*perLayer*r.Layers && !r.layers[layer] {
			continue // a layer without experts
		}
		for _, expert := range numbers[at : at+perLayer] {
			if expert < 0 || int(expert) >= r.Experts {
				return nil, fmt.Errorf("it returned expert %d, and the model has experts 0 to %d: the server has another model, or numbers its "+
					"layers otherwise", expert, r.Experts-1)
			}
			all = r.Append(all, expert)
		}
	}
	return all, r.Check(all, len(q.prompt)+len(a.tokens))
}

// fits returns an error unless an array has experts of the last places, for all layers or for those with experts.
func (r *router) fits(shape [3]int, places int) error {
	if shape[0] != places || shape[1] != r.Layers && shape[1] != len(r.layers) || shape[2] != r.PerToken {
		return fmt.Errorf("they have the shape %v; want [%d, %d, %d]", shape, places, r.Layers, r.PerToken)
	}
	return nil
}

// readBare reads an array of 32-bit numbers without a header, as SGLang sends it.
func (r *router) readBare(data []byte, places int) ([]int32, error) {
	row := 4 * places * r.PerToken
	if row == 0 || len(data)%row != 0 {
		return nil, fmt.Errorf("%d bytes for %d places and %d experts a token", len(data), places, r.PerToken)
	}
	if err := r.fits([3]int{places, len(data) / row, r.PerToken}, places); err != nil {
		return nil, err
	}
	return widen(data, 4), nil
}

// npyHeader is the dictionary in the header of an .npy file with an array of three dimensions.
var npyHeader = regexp.MustCompile(
	`^\{'descr': '[<|](u1|u2|i4)', 'fortran_order': False, 'shape': \((\d{1,9}), (\d{1,9}), (\d{1,9})\), \} *\n$`,
)

// readNPY reads an .npy file (numpy.lib.format), as vLLM sends it.
func (r *router) readNPY(data []byte, places int) ([]int32, error) {
	const magic = "\x93NUMPY"
	if len(data) < len(magic)+4 || string(data[:len(magic)]) != magic {
		return nil, errors.New("they are no .npy file")
	}
	length, rest := int(binary.LittleEndian.Uint16(data[len(magic)+2:])), data[len(magic)+4:]
	if data[len(magic)] != 1 || length > len(rest) {
		return nil, fmt.Errorf("their .npy header of version %d has %d bytes, of %d", data[len(magic)], length, len(rest))
	}
	header := npyHeader.FindSubmatch(rest[:length])
	if header == nil {
		return nil, fmt.Errorf("their .npy header is %.120q", rest[:length])
	}
	var shape [3]int
	for i := range shape {
		shape[i], _ = strconv.Atoi(string(header[2+i])) // digits
	}
	if err := r.fits(shape, places); err != nil {
		return nil, err
	}
	size := int(header[1][1] - '0')
	if want := size * shape[0] * shape[1] * shape[2]; len(rest)-length != want {
		return nil, fmt.Errorf("%d bytes follow their .npy header; its shape %v needs %d", len(rest)-length, shape, want)
	}
	return widen(rest[length:], size), nil
}

// widen reads little-endian numbers of so many bytes each.
func widen(data []byte, size int) []int32 {
	numbers := make([]int32, 0, len(data)/size)
	for ; len(data) > 0; data = data[size:] {
		switch size {
		case 1:
			numbers = append(numbers, int32(data[0]))
		case 2:
			numbers = append(numbers, int32(binary.LittleEndian.Uint16(data)))
		default:
			numbers = append(numbers, int32(binary.LittleEndian.Uint32(data)))
		}
	}
	return numbers
}
