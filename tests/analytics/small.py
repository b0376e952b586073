"""Settings of Spark for a few rows on two cores."""

from __future__ import annotations

from typing import Final

# Plans of a few rows run once: compiling them, or changing them as they run, takes longer than
# running them. Only code that Spark generates is left out.
SMALL: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
