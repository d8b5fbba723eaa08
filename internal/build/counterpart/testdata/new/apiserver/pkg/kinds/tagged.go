//go:build never

package kinds

func Tagged() int { return 2 }
