//go:build !unix

package top

import "os"

// resizes tells nothing: the size is looked at with every refresh.
func resizes() (<-chan os.Signal, func()) { return nil, func() {} }
