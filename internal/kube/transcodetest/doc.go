// Package transcodetest compares package transcode with Kubernetes' own decoders and
// encoders, for every built-in kind and version. It has tests only. They stand here because
// only packages below internal/kube may import Kubernetes' module.
package transcodetest
