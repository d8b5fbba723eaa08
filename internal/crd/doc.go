// Package crd serves custom resources, and keeps the conditions of their
// definitions, in place of Kubernetes' apiextensions server.
//
// What is known of a definition without decoding it is a row of the Catalog
// (Definition), which follows the cache's log of definitions and is read out of
// stored bytes. The definition itself stays in the byte cache and is decoded when
// it is asked for (Catalog.Full). Its schemas are decoded by a codec of ours
// (definitioncodec.Codec), which knows how Kubernetes writes them.
//
// A definition that is served has a storage for each version that was asked for,
// which holds no schema. What has to be compiled out of the schema is compiled
// on first need, shared by all requests, and dropped when it was not used for a
// while or when it takes too much memory (shelf). Watches live on the storages:
// they neither hold what is compiled nor end when it is dropped. They end, as
// with Kubernetes, when the definition's spec or accepted names change.
//
// What a conversion webhook makes of stored objects is asked for in reviews of many
// objects (conversions), and kept until an object or its definition changes
// (conversionCache). Decoding at a version finds it there.
//
// Creating a definition and the controller's writes of its status are answered by
// routes of this package (definitionWrites); the latter work on definitions without
// schemas (definitioncodec.OutlineCodec). All other writes of definitions are Kubernetes' routes'.
//
// The schemas, strategies and request handlers are Kubernetes' own, so what is
// answered is what Kubernetes answers.
//
// A caller makes a Server with New, which starts nothing: the goroutines begin
// with the generic server's post-start hooks and end with their context.
package crd
