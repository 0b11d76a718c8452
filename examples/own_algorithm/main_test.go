package main

import (
	"testing"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestMyCISPO(t *testing.T) {
	trinitytest.Loss(t, func() loss.PolicyLoss {
		l, err := loss.PolicyLosses.Build("my_cispo")
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}
