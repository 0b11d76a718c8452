package main

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestMyMedian(t *testing.T) {
	trinitytest.Advantage(t, func() trinity.Advantage {
		a, err := registry.Advantages.Build("my_median")
		if err != nil {
			t.Fatal(err)
		}
		return a
	})
}
