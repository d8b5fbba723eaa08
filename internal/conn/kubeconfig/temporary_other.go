//go:build !linux

package kubeconfig

func temporaryFile(text []byte) (name string, remove func(), err error) { return fileInDirectory(text) }
