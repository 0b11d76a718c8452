package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable that names the kernel set to use in place of the fastest, for tests and for reports of defects.
const Variable = "TRINITY_KERNELS"

// Forced is the set that [Variable] names, "" when it names none. It is an error if this processor cannot run it: the fastest is active then,
// and engines refuse to open.
func Forced() (string, error) {
	name := os.Getenv(Variable)
	if name == "" || slices.Contains(Available(), name) {
		return name, nil
	}
	return "", fmt.Errorf("%s is %q: this processor runs %s; unset it to use the fastest", Variable, name, strings.Join(Available(), ", "))
}

// forced is the set that must be taken, nil when it may take the fastest. A set that computes other bits than portable can be forced too:
// that is how its defect is looked at.
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
