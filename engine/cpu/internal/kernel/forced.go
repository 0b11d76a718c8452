package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable that names the kernel set to use instead of the fastest, for
// tests and to reproduce defects.
const Variable = "TRINITY_KERNELS"

// Forced returns the set that [Variable] names; "" if it is not set. It is an error if this
// processor cannot run the set: the fastest set is then active, and engines refuse to open.
func Forced() (string, error) {
	name := os.Getenv(Variable)
	if name == "" || slices.Contains(Available(), name) {
		return name, nil
	}
	return "", fmt.Errorf("%s is %q: this processor runs %s; unset it to use the fastest", Variable, name, strings.Join(Available(), ", "))
}

// forced returns the set that [Variable] names; nil if choose may take the fastest. It may name a
// set that computes other bits than portable, so that its defect can be examined.
func forced() *kernels {
	name, err := Forced()
	if err != nil {
		return nil
	}
	for _, s := range sets {
		if s.name == name {
			return s
		}
	}
	return nil
}
