"""What a checkpoint is: snapshot format, lineage, store protocol, dirty slots, export."""
