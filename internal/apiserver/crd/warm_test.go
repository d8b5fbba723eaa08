package crd

import "testing"

func TestWarm(t *testing.T) {
	if err := warm(t.Context()); err != nil {
		t.Error(err)
	}
}
