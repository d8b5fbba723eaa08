// Package transcode compares the package of that name with Kubernetes' own decoders and
// encoders, for every built-in kind and version. It has tests only, and is the only package
// of tests that imports Kubernetes' module.
package transcode
